package nodes

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/redact"
)

// remark is the line of a log that tells most about a node.
type remark struct {
	line string
	// about tells that it names the node, complains that it is an error.
	about, complains bool
}

// lastRemark returns the last line that tells most: a complaint about the node, any mention of it, any complaint.
func lastRemark(lines []string, node string) remark {
	for _, want := range []remark{{about: true, complains: true}, {about: true}, {complains: true}} {
		for _, line := range slices.Backward(lines) {
			if (!want.about || mentions(line, node)) && (!want.complains || IsErrorLine(line)) {
				want.line = Shorten(line)
				return want
			}
		}
	}
	return remark{}
}

// LastError is the last line of a log that is an error and names an object; empty: there is none.
func LastError(lines []string, name string) string {
	if r := lastRemark(lines, name); r.about && r.complains {
		return r.line
	}
	return ""
}

// mentions tells whether a line names the node, and not one whose name has this one in it: w1 is not w10, and not
// w1.example.com.
func mentions(line, node string) bool {
	for rest, start := line, 0; ; {
		i := strings.Index(rest, node)
		if i < 0 || node == "" {
			return false
		}
		start += i
		end := start + len(node)
		dot := strings.HasPrefix(line[end:], ".") && (end+1 == len(line) || !nameChar(line[end+1])) // of a sentence
		if (start == 0 || !inName(line[start-1])) && (end == len(line) || dot || !inName(line[end])) {
			return true
		}
		start++
		rest = line[start:]
	}
}

func nameChar(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func inName(c byte) bool { return nameChar(c) || c == '-' || c == '.' }

var (
	// klogHeader is severity, time, thread and place in the source: "E1121 12:00:00.000000 1 node_controller.go:285] ".
	klogHeader = regexp.MustCompile(`^[IWEF]\d{4} (?:[\d:.]+ +)?(?:\d+ +)?\S+:\d+\] `)
	// unhandled is how controllers log an error that they return: the words around it are the same for all.
	unhandled = regexp.MustCompile(`^"Unhandled Error" err=("(?:[^"\\]|\\.)*")(?: logger="UnhandledError")?$`)
	// klogError is how errors and fatal errors start in the log format of Kubernetes.
	klogError = regexp.MustCompile(`^[EF]\d{4}\b`)
	// otherError is how they look elsewhere: JSON, logfmt, prose.
	otherError = regexp.MustCompile(`(?i)\b(error|forbidden|failed|unauthorized|panic)\b`)
)

// IsErrorLine tells whether a line of a log is an error.
func IsErrorLine(line string) bool {
	return klogError.MatchString(line) || otherError.MatchString(line)
}

// Shorten cleans a line of a log: it drops klog's header, unwraps an unhandled error, and keeps both ends of a long line,
// since the subject is at the front and the reason at the end.
func Shorten(line string) string {
	const half = 200
	line = klogHeader.ReplaceAllString(strings.TrimSpace(finding.Clean(redact.Text(line))), "")
	if m := unhandled.FindStringSubmatch(line); m != nil {
		if text, err := strconv.Unquote(m[1]); err == nil {
			line = finding.Clean(text)
		}
	}
	if len(line) > 2*half {
		line = strings.ToValidUTF8(line[:half]+" ... "+line[len(line)-half:], "")
	}
	return line
}

var (
	// lost is how a program ends that could not renew its Lease (client-go tools/leaderelection): it does not say why.
	lost = regexp.MustCompile(`(?i)leader ?election lost|failed to renew lease`)
	// renewing is why it could not.
	renewing = regexp.MustCompile(`(?i)failed to update l(?:ock|ease)|(?:lease|resource) lock`)
)

// LastWord is the last line of a log, and where that says only that the Lease is lost, the error before it. Empty: the log is.
func LastWord(log []string) string {
	if len(log) == 0 {
		return ""
	}
	word := Shorten(log[len(log)-1])
	if !lost.MatchString(word) {
		return word
	}
	for _, line := range slices.Backward(log[:len(log)-1]) {
		if renewing.MatchString(line) && !lost.MatchString(line) && IsErrorLine(line) {
			return word + "; before that: " + Shorten(line)
		}
	}
	return word
}
