package templates

import (
	"fmt"
	"strings"
)

// iniValues finds which value a "Section.key" has, as gcfg reads a file, the parser of most providers: names in any
// case, a section may have a quoted subsection, a comment starts at # or ; wherever no quotes are open, a line goes on
// behind a backslash, and a key alone means true.
//
// It is not gcfg itself (gopkg.in/gcfg.v1, whose last release is of 2018): that fills a struct whose fields it knows.
func iniValues(data []byte) (func(key string) string, error) {
	values := map[string]string{}
	section, number, continued := "", 0, false
	for line := range strings.Lines(string(data)) {
		number++
		if behind := continued; behind {
			continued = strings.HasSuffix(strings.TrimRight(line, "\r\n"), "\\")
			continue
		}
		continued = strings.HasSuffix(strings.TrimRight(line, "\r\n"), "\\")
		line, closed := uncommented(line)
		switch {
		case !closed && !continued:
			return nil, fmt.Errorf("line %d: a quote without its end", number)
		case line == "":
			continue
		}
		if name, ok := strings.CutPrefix(line, "["); ok {
			name, _, ok = strings.Cut(name, "]")
			if !ok {
				return nil, fmt.Errorf("line %d: a section without its ]", number)
			}
			section, _, _ = strings.Cut(strings.TrimSpace(name), " ")
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if section == "" || (!ok && strings.ContainsAny(line, ":{}")) {
			return nil, fmt.Errorf("line %d: want [Section] and key = value", number)
		}
		if !ok {
			value = "true"
		}
		if value = strings.Trim(value, " \t\""); value != "" {
			values[strings.ToLower(section+"."+strings.TrimSpace(key))] = value
		}
	}
	return func(key string) string { return values[strings.ToLower(key)] }, nil
}

// uncommented is a line up to its comment, and whether its quotes are closed by then.
func uncommented(line string) (text string, closed bool) {
	quoted, escaped := false, false
	for i, r := range line {
		switch {
		case escaped:
			escaped = false
		case r == '\\':
			escaped = true
		case r == '"':
			quoted = !quoted
		case !quoted && (r == '#' || r == ';'):
			return strings.TrimSpace(line[:i]), true
		}
	}
	return strings.TrimSpace(line), !quoted
}
