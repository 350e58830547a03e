package redact

import "strings"

// furtherLines takes out values that stand on lines behind their name: a block of YAML, whole, and the value of a
// variable or an argument that has its name on the line before.
func furtherLines(text string) string {
	var out strings.Builder
	out.Grow(len(text))
	inside, in, name := false, 0, ""
	for whole := range strings.Lines(text) {
		content := strings.TrimRight(whole, "\r\n")
		left := strings.TrimLeft(content, " \t")
		indent := len(content) - len(left)
		inside = inside && (left == "" || indent > in)
		parts := valued.FindStringSubmatch(content)
		switch {
		case inside && left != "":
			content = content[:indent] + Mark
		case parts != nil && name != "" && Secret(name) && !harmless(parts[2]):
			content = parts[1] + Mark
		case !inside && strings.ContainsAny(content, "|>") && below.MatchString(content):
			inside, in = true, indent
		}
		name = ""
		if found := pair.FindStringSubmatch(content); found != nil {
			name = found[1]
		}
		out.WriteString(content + whole[len(strings.TrimRight(whole, "\r\n")):])
	}
	return out.String()
}
