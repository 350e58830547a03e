package rehearsal

import (
	"bytes"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ccmadm/ccmadm/api/redact"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// logParser reads the program's log. Nothing else shows why a Node is not initialized: upstream's controllers
// write no Event about it. It takes the log as an io.Writer, in upstream's texts, which are those of every provider.
type logParser struct {
	copy io.Writer

	mu   sync.Mutex
	rest []byte
	// key is how many lines may still belong to a block of PEM whose beginning was read.
	key int
	// failures are by Node.
	failures map[string]*logError
	// failed is when a Node had its first error.
	failed time.Time
	// disabled says why the controller does not run, where it says so.
	disabled string
	// unknownFlag is one that the program does not have; unknownName says that it does not know the controller's.
	unknownFlag string
	unknownName bool
	// last are the last lines; errors those of them that are errors.
	last, errors []string
}

// logError is the last error of one Node, and how often there was one.
type logError struct {
	text  string
	times int
}

func newLogParser(log io.Writer) *logParser {
	return &logParser{copy: log, failures: map[string]*logError{}}
}

var (
	// syncFailed is the node controller's, which says it twice each time; emptyAnswer is its word about a provider that
	// knows nothing of a Node and calls it no error.
	syncFailed  = regexp.MustCompile(`error syncing '([^']+)': (.*), requeuing`)
	emptyAnswer = regexp.MustCompile(`Skip sync node (\S+) because cloud provided nil metadata`)
	// askFailed is the lifecycle controller's. That it cannot ask about power, which some providers never can, is no
	// doubt about the machine.
	askFailed = regexp.MustCompile(`error checking if node (\S+) exists: (.*)`)
	// notStarted is the program's, which goes on without the controller.
	notStarted = regexp.MustCompile(`[fF]ailed to start cloud node(?: lifecycle)? controller: (.*)`)
	// noFlag and noName are how a program refuses arguments.
	noFlag = regexp.MustCompile(`unknown flag: (--[-a-z0-9]+)`)
	noName = regexp.MustCompile(`is not in the list of known controllers`)
	// structured is how errors are quoted by the newer form of the log.
	structured = regexp.MustCompile(`err="((?:[^"\\]|\\.)*)"`)
)

// Write takes a part of the log. Whole lines are copied, without credentials; a copy that fails stops nothing.
func (w *logParser) Write(part []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, part...)
	for {
		line, rest, found := bytes.Cut(w.rest, []byte("\n"))
		if !found {
			return len(part), nil
		}
		w.whole(string(line))
		w.rest = rest
	}
}

// whole takes a line.
func (w *logParser) whole(line string) {
	const longestKey = 400 // lines
	switch ends := strings.Contains(line, "-----END "); {
	case w.key > 0 && !ends:
		w.key--
		line = redact.Mark
	case w.key > 0:
		w.key, line = 0, redact.Mark
	case strings.Contains(line, "-----BEGIN ") && !ends:
		w.key = longestKey
	}
	line = redact.Text(line)
	if w.copy != nil {
		_, _ = io.WriteString(w.copy, line+"\n")
	}
	w.line(line)
}

// end takes what the program has written last without ending the line.
func (w *logParser) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.rest) > 0 {
		w.whole(string(w.rest))
		w.rest = nil
	}
}

const kept = 20

func (w *logParser) line(line string) {
	w.last = append(w.last[max(0, len(w.last)+1-kept):], line)
	if nodes.IsErrorLine(line) {
		w.errors = append(w.errors[max(0, len(w.errors)+1-kept):], line)
	}
	text := line
	if m := structured.FindStringSubmatch(line); m != nil {
		if plain, err := strconv.Unquote(`"` + m[1] + `"`); err == nil {
			text = plain
		}
	}
	switch {
	case syncFailed.MatchString(text):
		m := syncFailed.FindStringSubmatch(text)
		w.fail(m[1], m[2], 1)
	case emptyAnswer.MatchString(text):
		w.fail(emptyAnswer.FindStringSubmatch(text)[1], "the provider has no metadata for it", enough)
	case askFailed.MatchString(text):
		m := askFailed.FindStringSubmatch(text)
		w.fail(m[1], m[2], 1)
	case noFlag.MatchString(text):
		w.unknownFlag = noFlag.FindStringSubmatch(text)[1]
	case noName.MatchString(text):
		w.unknownName = true
	case notStarted.MatchString(text):
		w.disabled = notStarted.FindStringSubmatch(text)[1]
		if len(w.errors) > 1 { // the provider's own error stands before the program's
			w.disabled += ": " + nodes.Shorten(w.errors[len(w.errors)-2])
		}
	}
}

// enough is how often the node controller has to log an error of a Node before it counts as its answer: two attempts at
// least, since each is said in one line or two.
const enough = 4

func (w *logParser) fail(node, text string, times int) {
	c := w.failures[node]
	if c == nil {
		c = &logError{}
		w.failures[node] = c
		w.failed = time.Now()
	}
	c.text = nodes.Shorten(text)
	c.times += times
}

// errorOf returns the last error of a Node, and how often there was one.
func (w *logParser) errorOf(node string) (string, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.failures[node]; c != nil {
		return c.text, c.times
	}
	return "", 0
}

// failedNodes are the Nodes that an error was logged of.
func (w *logParser) failedNodes() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := map[string]bool{}
	for name := range w.failures {
		names[name] = true
	}
	return names
}

func (w *logParser) lastFailure() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

func (w *logParser) reasonDisabled() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.disabled
}

// final is the line that tells most of why the program has ended: its last error, or its last line.
func (w *logParser) final() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, lines := range [][]string{w.errors, w.last} {
		if len(lines) > 0 {
			return nodes.Shorten(lines[len(lines)-1])
		}
	}
	return ""
}

// refusedArgs are arguments that the program has refused.
func (w *logParser) refusedArgs() (flag string, name bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unknownFlag, w.unknownName
}
