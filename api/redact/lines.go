package redact

import (
	"regexp"
	"strings"
)

var (
	// below is a name whose value is on the lines after it, as long as these are further in: all of them, where it ends
	// with the mark of a block, else those that are no name of another value.
	below = regexp.MustCompile(`(?i)` + secretWord + `s?\\*["']?[ \t]*[:=][ \t]*(?:[&!]\S*[ \t]*)*([|>][-+0-9]*|[\[{(\\])?[ \t]*(?:#.*)?$`)
	other = regexp.MustCompile(`^["']?[\w./-]+["']?[ \t]*(?::[ \t]|:$|=[ \t])|^#|^[\]}),;]+$`)
	// pair is a variable or an argument of YAML: its name reports whether the value on the next line is a credential.
	pair = regexp.MustCompile(`(?i)^[-+ \t]*["']?name["']?:[ \t]*["']?([\w.-]+)["']?,?[ \t]*$`)
	// valued is that line, also of a difference.
	valued = regexp.MustCompile(`^([-+]?[ \t]*["']?value["']?:[ \t]*)(\S.*)$`)
	// argument is a flag that is a line of its own, its value the next one; another is a flag, too.
	argument = regexp.MustCompile(`(?i)^[-+ \t"']*-[\w-]*(?:` + secretWord + `|key)["']?,?[ \t]*\\?$`)
	another  = regexp.MustCompile(`^[-+ \t]?[ \t]*(?:- )?["']?--?\w`)
)

// prefix is what journald, a container's log, kubectl and the mark of a comment put before a line. Its group is who
// wrote the line, where a log has several writers.
var prefix = regexp.MustCompile(`^(?:\d{4}-\d\d-\d\dT\S+ (std(?:out|err) [FP] |[\w.-]+ [\w.@()-]+(?:\[\d+\])?: )?)?` +
	`(?:[-+]?[ \t]*(?:#+|//|;)[ \t]?)?`)

// variablesOf is where kubeadm's configuration has variables of the control plane, whose values all go: a name says little
// of them.
const variablesOf = "extraEnvs"

// flowing is the value of one in a line.
var flowing = regexp.MustCompile(`("?\bvalue"?:[ \t]*)("(?:[^"\\]|\\.)*"|'[^']*'|[^\s,}\]]+)`)

// mostLines are how many lines a value in quotes may have behind its first.
const mostLines = 10

// following is what a line says about those behind it.
type following struct {
	inside, whole bool
	in            int    // where the name stands
	name          string // of a variable or an argument
	variables     int    // where the name of a list of variables stands, and one more
	flag          bool
	quote         byte
}

// furtherLines takes out values that stand on lines behind their name: a block of YAML, an item of a list, the rest of what
// is in quotes, and the value of a variable or an argument that has its name on the line before. In a log with several
// writers, the lines of another one may stand between.
func furtherLines(text string) string {
	lines := strings.SplitAfter(text, "\n")
	var out strings.Builder
	out.Grow(len(text))
	writers := map[string]*following{}
	for i, whole := range lines {
		content := strings.TrimRight(whole, "\r\n")
		before, writer := whoWrote(content)
		f := writers[writer]
		if f == nil {
			f = &following{}
			writers[writer] = f
		}
		out.WriteString(before + f.line(content[len(before):], lines[i+1:]) + whole[len(content):])
	}
	return out.String()
}

// whoWrote returns what stands before a line, and the part of it that says who wrote the line.
func whoWrote(line string) (before, writer string) {
	at := prefix.FindStringSubmatchIndex(line)
	if at == nil {
		return "", ""
	}
	if at[2] >= 0 {
		writer = line[at[2]:at[3]]
	}
	return line[:at[1]], writer
}

// withoutValues takes out of a line the value of each variable.
func withoutValues(line string) string {
	return flowing.ReplaceAllStringFunc(line, func(match string) string {
		parts := flowing.FindStringSubmatch(match)
		if harmless(parts[2]) {
			return match
		}
		return parts[1] + Mark
	})
}

// line is a line without what those before it say to be a credential.
func (f *following) line(content string, after []string) string {
	if f.quote != 0 {
		end, closed := closing(content, f.quote, 0)
		if !closed {
			return Mark
		}
		f.quote = 0
		return Mark + content[end:]
	}
	at := len(content) - len(strings.TrimLeft(content, " \t+-"))
	blank := at == len(content)
	f.inside = f.inside && (blank || at > f.in)
	value := valued.FindStringSubmatch(content)
	if f.variables > 0 && !blank && at < f.variables {
		f.variables = 0
	}
	switch {
	case f.variables > 0:
		content = withoutValues(content)
	case strings.Contains(content, variablesOf):
		content, f.variables = withoutValues(content), at+1
	case f.inside && !blank && (f.whole || !other.MatchString(content[at:])):
		content = content[:at] + Mark
	case value != nil && f.name != "" && Secret(f.name) && !harmless(value[2]):
		content = value[1] + Mark
	case f.flag && !blank && !another.MatchString(content):
		content = content[:at] + Mark
	case !f.inside || !f.whole:
		content = f.begin(content, at, after)
	}
	f.flag = mayName(content) && argument.MatchString(content)
	f.name = ""
	if found := pair.FindStringSubmatch(content); found != nil {
		f.name = found[1]
	}
	return content
}

// begin looks whether a line has a name whose value is behind it.
func (f *following) begin(content string, at int, after []string) string {
	if !mayName(content) {
		return content
	}
	if parts := below.FindStringSubmatch(content); parts != nil && !innocent.MatchString(content) {
		f.inside, f.in = true, at
		f.whole = strings.HasPrefix(parts[1], "|") || strings.HasPrefix(parts[1], ">")
		return content
	}
	if !strings.ContainsAny(content, `"'`) {
		return content
	}
	for from := 0; ; {
		found := name.FindStringIndex(content[from:])
		if found == nil {
			return content
		}
		from += found[1]
		rest := content[from:]
		if rest == "" || rest[0] != '"' && rest[0] != '\'' {
			continue
		}
		if end, closed := closing(rest[1:], rest[0], 0); closed {
			from += 1 + end
			continue
		}
		for _, line := range after[:min(len(after), mostLines)] {
			if _, closed := closing(line, rest[0], 0); closed {
				f.quote = rest[0]
				return content[:from] + Mark
			}
		}
		return content
	}
}
