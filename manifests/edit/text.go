package edit

import (
	"bytes"
	"fmt"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// encode writes a fragment in block style, indented as the document is.
func (d *Document) encode(n *yaml.Node) (string, error) {
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(d.indentStep())
	if wideSequences(d.Root) {
		encoder.DefaultSeqIndent()
	}
	if err := encoder.Encode(n); err != nil {
		return "", fmt.Errorf("encode YAML: %w", err)
	}
	return b.String(), nil
}

// encodeFlow writes a fragment on one line. With quotes around every string it is JSON as well.
func (d *Document) encodeFlow(n *yaml.Node) (string, error) {
	style := n.Style
	setFlowStyle(n)
	text, err := d.encode(n)
	n.Style = style
	return strings.TrimSuffix(text, "\n"), err
}

func setFlowStyle(n *yaml.Node) {
	switch {
	case n.Kind != yaml.ScalarNode:
		n.Style = yaml.FlowStyle
	case n.ShortTag() == yaml.NodeTagString: // quotes would make strings of all others
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, child := range n.Content {
		setFlowStyle(child)
	}
}

// indentStep is the number of columns that the document indents by.
func (d *Document) indentStep() int {
	for i := 0; d.Root != nil && i+1 < len(d.Root.Content); i += 2 {
		key, value := d.Root.Content[i], d.Root.Content[i+1]
		if value.Kind == yaml.MappingNode && !isFlow(value) && len(value.Content) > 0 {
			return max(2, value.Content[0].Column-key.Column)
		}
	}
	return 2
}

// wideSequences tells whether the document indents lists below their key. kubeadm's own output does not.
func wideSequences(n *yaml.Node) bool {
	if n == nil {
		return false
	}
	for i := range n.Content {
		value := n.Content[i]
		if n.Kind == yaml.MappingNode && i%2 == 1 && value.Kind == yaml.SequenceNode && !isFlow(value) {
			return value.Column > n.Content[i-1].Column
		}
		if wideSequences(value) {
			return true
		}
	}
	return false
}

// offset turns a node's line and column, which counts characters, into an index of the text.
func (d *Document) offset(n *yaml.Node) int {
	at := 0
	for range n.Line - 1 {
		at += strings.IndexByte(d.Text[at:], '\n') + 1
	}
	column := 1
	for i := range d.Text[at:] {
		if column == n.Column {
			return at + i
		}
		column++
	}
	return len(d.Text)
}

// indentBelow is the indentation of what stands below line n.
func indentBelow(lines []string, n int) int {
	for _, line := range lines[n:] {
		if text := strings.TrimSpace(line); text != "" && text[0] != '#' {
			return indentOf(line)
		}
	}
	return 0
}

// entryEnd is the line behind the first entry of a mapping in block style.
func entryEnd(lines []string, mapping *yaml.Node) int {
	key, value := mapping.Content[0], mapping.Content[1]
	dashes := value.Kind == yaml.SequenceNode && !isFlow(value)
	end := key.Line
	for i := key.Line; i < len(lines); i++ {
		text, indent := strings.TrimSpace(lines[i]), indentOf(lines[i])
		if text == "" || text[0] == '#' {
			continue
		}
		own := indent >= key.Column || dashes && indent == key.Column-1 && text[0] == '-'
		if !own {
			break
		}
		end = i + 1
	}
	return end
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

func leadingSpace(text string) string {
	return text[:len(text)-len(strings.TrimLeft(text, " \t\r\n"))]
}

// lineComment returns the comment at a line's end. Quotes count where a scalar may begin.
func lineComment(line string) string {
	var quote byte
	for i := 0; i < len(line); i++ {
		c := line[i]
		starts := i == 0 || strings.IndexByte(" \t,:[{", line[i-1]) >= 0
		switch {
		case quote == '"' && c == '\\':
			i++
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
		case starts && (c == '"' || c == '\''):
			quote = c
		case c == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t'):
			return strings.TrimRight(line[i:], "\r\n")
		}
	}
	return ""
}

// flowEnd returns where a value in a flow collection ends: at the comma or bracket behind it.
func flowEnd(text string, at int) int {
	depth := 0
	var quote byte
	for i := at; i < len(text); i++ {
		c := text[i]
		switch {
		case quote == '"' && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case (c == '"' || c == '\'') && (i == at || strings.IndexByte(" \t\n,:[{", text[i-1]) >= 0):
			quote = c
		case c == '#' && i > 0 && strings.IndexByte(" \t\n", text[i-1]) >= 0:
			i += max(0, strings.IndexByte(text[i:], '\n'))
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth < 0 {
				return i
			}
			if depth == 0 {
				return i + 1
			}
		case c == ',' && depth == 0:
			return i
		}
	}
	return len(text)
}

// MappingNode is a mapping with one entry.
func MappingNode(key string, value *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{ScalarNode(key), value}}
}

// ScalarNode is a text.
func ScalarNode(value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: yaml.NodeTagString, Value: value}
}
