package redact

import (
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// fieldOf is a line of YAML, also in a list or in a difference, whose value ends with the line.
var fieldOf = regexp.MustCompile(`^([-+]?[ \t]*(?:- )*(?:[\w./-][\w./ -]*|"[^"]+"|'[^']+'):[ \t]+|[-+]?[ \t]*(?:- )+)` +
	`([^\s|>&*!\[{#].*?)([ \t]*\r?)$`)

// Fields is Text for a text with lines of YAML in it, as a difference of objects or what kubeadm would write. The value
// of a line is judged by itself first: it may have a name of its own in it, and quotes that YAML has doubled.
func Fields(text string) string {
	var out strings.Builder
	out.Grow(len(text))
	for whole := range strings.Lines(text) {
		content := strings.TrimSuffix(whole, "\n")
		if parts := fieldOf.FindStringSubmatch(content); parts != nil {
			content = parts[1] + scalar(parts[2]) + parts[3]
		}
		out.WriteString(content + whole[len(strings.TrimSuffix(whole, "\n")):])
	}
	return Text(out.String())
}

// scalar is one value of YAML without credentials, and as it was where it has none or is something else.
func scalar(written string) string {
	var value any
	if yaml.Unmarshal([]byte(written), &value) != nil {
		return written
	}
	text, is := value.(string)
	if !is {
		return written
	}
	kept := Text(text)
	if kept == text {
		return written
	}
	out, err := yaml.Marshal(kept)
	if err != nil || strings.Count(string(out), "\n") > 1 {
		return Mark
	}
	return strings.TrimSuffix(string(out), "\n")
}
