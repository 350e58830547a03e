// Package edit changes YAML and JSON documents as text, in the places that must change and nowhere else: comments,
// order, quoting, anchors and line ends stay as the user wrote them.
//
// Start at [Split] for the documents of a file, then [Document.Insert], [Document.Set] and [Document.Remove]. Each
// edit is checked: the new text is read again and must mean what was intended, or the edit is refused. The functions
// that take a node read it as Kubernetes' decoders would, through aliases and merge keys.
//
// Reads and writes nothing but the text that it is given.
package edit

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// Document is one of the documents of a file: its text, and the tree that says where in the text things stand.
type Document struct {
	// File is the name that leads errors.
	File string
	// Separator is the line before the document, "---"; empty when the file starts with it.
	Separator string
	// Text is the document itself.
	Text string
	// Line is where in the file the text starts.
	Line int
	// Root is nil when there is nothing but comments.
	Root *yaml.Node
}

// CheckEncoding refuses text in which YAML and kubeadm would not see the same lines.
func CheckEncoding(name string, data []byte) error {
	for i, line := range strings.Split(string(data), "\n") {
		if !utf8.ValidString(line) || strings.ContainsRune(line, 0) {
			return fmt.Errorf("%s:%d: not UTF-8 text: save the file as UTF-8", name, i+1)
		}
		// YAML breaks lines at all of these, and kubeadm at line feeds only.
		if strings.ContainsAny(strings.TrimSuffix(line, "\r"), "\r\u0085\u2028\u2029") {
			return fmt.Errorf("%s:%d: an odd line break in the line: save the file with Unix or Windows line ends", name, i+1)
		}
	}
	return nil
}

// Separator starts a line between two documents.
const Separator = "---"

// Split cuts the text where the readers of kubeadm and kubectl do, k8s.io/apimachinery/pkg/util/yaml.YAMLReader.
func Split(name, text string) ([]*Document, error) {
	var docs []*Document
	d := &Document{File: name, Line: 1}
	start, at := 0, 0
	end := func() {
		if d.Text = text[start:at]; d.Separator != "" || d.Text != "" {
			docs = append(docs, d)
		}
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		if rest, ok := strings.CutPrefix(line, Separator); ok {
			if rest = strings.TrimSpace(rest); rest != "" && rest[0] != '#' {
				return nil, fmt.Errorf("%s:%d: %q after the document separator: put it on a line of its own", name, number, rest)
			}
			end()
			d, start = &Document{File: name, Separator: line, Line: number + 1}, at+len(line)
		}
		at += len(line)
	}
	end()
	return docs, nil
}

// Next returns a document that follows d in its file, with d's line ends. A last line of d that has no end gets one.
func (d *Document) Next(text string) Document {
	newline := d.Newline()
	if !strings.HasSuffix(d.Separator+d.Text, "\n") {
		d.Text += newline
	}
	return Document{
		File: d.File, Separator: Separator + newline, Line: d.Line + strings.Count(d.Text, "\n") + 1,
		Text: strings.ReplaceAll(text, "\n", newline),
	}
}

// Parse builds the tree from the text.
func (d *Document) Parse() (err error) {
	d.Root, err = d.decode()
	return err
}

// Value returns what the document says, after it has found duplicate keys and aliases that contain themselves.
func (d *Document) Value() (value any, err error) {
	if err := d.Root.Decode(&value); err != nil {
		return nil, d.yamlError(err)
	}
	return value, nil
}

// decode returns the root of the one document in the text, or nil when it is empty.
func (d *Document) decode() (*yaml.Node, error) {
	decoder := yaml.NewDecoder(strings.NewReader(d.Text))
	var doc yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, d.yamlError(err)
	}
	if err := decoder.Decode(&yaml.Node{}); err != nil && !errors.Is(err, io.EOF) { // what is behind the document
		return nil, d.yamlError(err)
	}
	if IsNull(doc.Content[0]) {
		return nil, nil
	}
	return doc.Content[0], nil
}

// LineOf is the node's line in the file.
func (d *Document) LineOf(n *yaml.Node) int { return d.Line + n.Line - 1 }

// Errorf is an error about what stands at the node.
func (d *Document) Errorf(at *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", d.File, d.LineOf(at), fmt.Errorf(format, args...))
}

var (
	yamlLine   = regexp.MustCompile(`\bline (\d+)`)
	yamlAnchor = regexp.MustCompile(`\banchor '([^']+)'`)
	// yamlParser matches the errors whose line the library counts from 0: the parser's, not the scanner's.
	yamlParser = regexp.MustCompile(`did not find expected (key|node content|',' or|'-' indicator|<)`)
)

// yamlError rewrites an error of the YAML library, whose lines count from the document's start.
func (d *Document) yamlError(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	var types *yaml.TypeError
	if errors.As(err, &types) {
		text = types.Errors[0]
	}
	offset := d.Line - 1
	if yamlParser.MatchString(text) {
		offset++
	}
	text = yamlLine.ReplaceAllStringFunc(text, func(s string) string {
		n, _ := strconv.Atoi(strings.TrimPrefix(s, "line ")) // digits
		return "line " + strconv.Itoa(offset+n)
	})
	at := strconv.Itoa(d.Line)
	if m := yamlLine.FindStringSubmatch(text); m != nil && strings.HasPrefix(text, m[0]+": ") {
		at, text = m[1], strings.TrimPrefix(text, m[0]+": ")
	} else if m := yamlAnchor.FindStringSubmatch(text); m != nil {
		before, _, _ := strings.Cut(d.Text, "*"+m[1])
		at = strconv.Itoa(d.Line + strings.Count(before, "\n"))
	}
	return fmt.Errorf("%s:%s: read YAML: %s", d.File, at, text)
}

// Newline is the line end that the document uses.
func (d *Document) Newline() string {
	if strings.Contains(d.Separator+d.Text, "\r\n") {
		return "\r\n"
	}
	return "\n"
}
