package redact

import (
	"regexp"
	"strings"
)

// environment is the line of a unit of systemd with variables, or of `systemctl show`, which has all of them in one.
var environment = regexp.MustCompile(`^(.*?\bEnvironment=)(.*)$`)

// variables keeps of a unit's variables the names, and the values of the kubelet's own: those are its flags.
func variables(line string) string {
	parts := environment.FindStringSubmatch(line)
	if parts == nil {
		return line
	}
	var list []string
	for _, word := range unitWords(parts[2]) {
		name, _, assigns := strings.Cut(strings.TrimLeft(word, `"'`), "=")
		switch {
		case strings.HasPrefix(name, "KUBELET_"):
			list = append(list, word)
		case assigns:
			list = append(list, name+"="+Mark)
		default:
			list = append(list, Mark)
		}
	}
	return parts[1] + strings.Join(list, " ")
}

// unitWords splits a line at blanks, as systemd does: not within quotes, which stay, nor behind a backslash.
func unitWords(line string) []string {
	var list []string
	var quote byte
	start := -1
	for i := 0; i < len(line); i++ {
		c := line[i]
		if quote == 0 && (c == ' ' || c == '\t') {
			if start >= 0 {
				list = append(list, line[start:i])
			}
			start = -1
			continue
		}
		if start < 0 {
			start = i
		}
		switch {
		case c == '\\':
			i++
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case c == quote:
			quote = 0
		}
	}
	if start >= 0 {
		list = append(list, line[start:])
	}
	return list
}
