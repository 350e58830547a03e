package edit

import (
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// cutBlock returns the text without the lines of an entry in block style. Their comments stay, on lines of their own.
func (d *Document) cutBlock(first, value *yaml.Node, container yaml.Kind) string {
	lines := strings.SplitAfter(d.Text, "\n")
	start := first.Line - 1
	for container == yaml.SequenceNode && start > 0 && !strings.HasPrefix(strings.TrimSpace(lines[start]), "-") {
		start--
	}
	indent := indentOf(lines[start])
	end := d.blockEnd(lines, start, value, container)
	kept := slices.Clone(lines[:start])
	for _, line := range lines[start:end] {
		if c := lineComment(line); c != "" {
			kept = append(kept, strings.Repeat(" ", indent)+c+d.Newline())
		}
	}
	return strings.Join(append(kept, lines[end:]...), "")
}

// blockEnd returns the line behind an entry: the first that is indented no deeper. Comments and blank lines at the
// end belong to what follows.
func (d *Document) blockEnd(lines []string, start int, value *yaml.Node, container yaml.Kind) int {
	end, indent := start+1, indentOf(lines[start])
	dashes := container == yaml.MappingNode && value.Kind == yaml.SequenceNode // they may stand right below the key
	for i := start + 1; i < len(lines); i++ {
		text := strings.TrimSpace(lines[i])
		if text == "" || text[0] == '#' {
			continue
		}
		own := indentOf(lines[i]) > indent || dashes && indentOf(lines[i]) == indent && text[0] == '-'
		if !own && text[0] != '}' && text[0] != ']' {
			break
		}
		end = i + 1
	}
	return end
}

// cutFlow returns the text without an entry in flow style and its comma.
func (d *Document) cutFlow(first, value *yaml.Node) string {
	text := d.Text
	start := d.offset(first)
	end := flowEnd(text, d.offset(value))
	if comma := end + len(leadingSpace(text[end:])); comma < len(text) && text[comma] == ',' {
		end = comma + 1
		end += len(leadingSpace(text[end:]))
	} else if before := strings.TrimRight(text[:start], " \t\r\n"); strings.HasSuffix(before, ",") {
		start = len(before) - 1
	}
	parts := []string{text[:start]}
	for line := range strings.SplitSeq(text[start:end], "\n") {
		if c := lineComment(line); c != "" {
			parts = append(parts, " "+c+d.Newline())
		}
	}
	if strings.HasPrefix(text[end:], "#") {
		parts = append(parts, " ")
	}
	return strings.Join(append(parts, text[end:]), "")
}
