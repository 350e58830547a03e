package phases

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

// kubeadmDoc is one document: its text, and the tree that says where in the text things stand.
type kubeadmDoc struct {
	file       string
	separator  string // the line before it, "---"; empty when the file starts with the document
	text       string
	line       int        // of the text's first line in the file
	root       *yaml.Node // a mapping; nil when there is nothing but comments
	apiVersion string
	kind       string
}

func (d *kubeadmDoc) isKubeadm() bool { return strings.HasPrefix(d.apiVersion, kubeadmGroup+"/") }

// checkEncoding refuses text in which YAML and kubeadm would not see the same lines.
func checkEncoding(name string, data []byte) error {
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

// splitDocuments cuts the text where kubeadm's reader does, k8s.io/apimachinery/pkg/util/yaml.YAMLReader.
func splitDocuments(name, text string) ([]*kubeadmDoc, error) {
	var docs []*kubeadmDoc
	d := &kubeadmDoc{file: name, line: 1}
	for i, line := range strings.SplitAfter(text, "\n") {
		rest, ok := strings.CutPrefix(line, documentSeparator)
		if !ok {
			d.text += line
			continue
		}
		if rest = strings.TrimSpace(rest); rest != "" && rest[0] != '#' {
			return nil, fmt.Errorf("%s:%d: %q after the document separator: put it on a line of its own", name, i+1, rest)
		}
		if d.separator != "" || d.text != "" {
			docs = append(docs, d)
		}
		d = &kubeadmDoc{file: name, separator: line, line: i + 2}
	}
	if d.separator != "" || d.text != "" {
		docs = append(docs, d)
	}
	return docs, nil
}

// parse builds the tree from the text and checks what must hold for every document.
func (d *kubeadmDoc) parse() error {
	root, err := d.decode()
	if err != nil || root == nil {
		return err
	}
	if root.Kind != yaml.MappingNode {
		return d.errorf(root, "want a mapping with apiVersion and kind")
	}
	d.root = root
	d.apiVersion, d.kind = scalar(lookup(root, "apiVersion")), scalar(lookup(root, "kind"))
	group, version, ok := strings.Cut(d.apiVersion, "/")
	if !ok || group == "" || version == "" || d.kind == "" {
		return d.errorf(root, "kubeadm wants apiVersion (as group/version) and kind in each document")
	}
	ours := d.kind == clusterConfigKind || d.kind == RoleInit.kind() || d.kind == RoleJoin.kind()
	if !d.isKubeadm() && !ours {
		return nil
	}
	return d.checkKubeadm(version) // kubeadm goes by the kind alone
}

// checkKubeadm refuses versions that no supported kubeadm reads, and what makes an edit ambiguous.
func (d *kubeadmDoc) checkKubeadm(version string) error {
	at := lookup(d.root, "apiVersion")
	switch {
	case d.apiVersion == kubeadmV1beta3, d.apiVersion == kubeadmV1beta4:
	case strings.HasPrefix(version, "v1alpha"), version == "v1beta1", version == "v1beta2":
		return d.errorf(at, "%s is older than what kubeadm reads now: run `kubeadm config migrate --old-config OLD --new-config NEW` with the kubeadm that the file was written for", d.apiVersion)
	default:
		return d.errorf(at, "%s is not known: want %s or %s", d.apiVersion, kubeadmV1beta3, kubeadmV1beta4)
	}
	var values any
	if err := d.root.Decode(&values); err != nil { // finds duplicate keys and aliases that contain themselves
		return d.yamlError(err)
	}
	return nil
}

// decode returns the root of the one document in the text, or nil when it is empty.
func (d *kubeadmDoc) decode() (*yaml.Node, error) {
	for i, line := range strings.Split(d.text, "\n") {
		if strings.HasPrefix(line, "%") {
			return nil, fmt.Errorf("%s:%d: kubeadm does not read YAML directives: remove the line", d.file, d.line+i)
		}
	}
	decoder := yaml.NewDecoder(strings.NewReader(d.text))
	var doc yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, d.yamlError(err)
	}
	if err := decoder.Decode(&yaml.Node{}); err != nil && !errors.Is(err, io.EOF) { // what is behind the document
		return nil, d.yamlError(err)
	}
	if isNull(doc.Content[0]) {
		return nil, nil
	}
	return doc.Content[0], nil
}

// lineOf is the node's line in the file.
func (d *kubeadmDoc) lineOf(n *yaml.Node) int { return d.line + n.Line - 1 }

func (d *kubeadmDoc) errorf(at *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", d.file, d.lineOf(at), fmt.Errorf(format, args...))
}

var (
	yamlLine   = regexp.MustCompile(`\bline (\d+)`)
	yamlAnchor = regexp.MustCompile(`\banchor '([^']+)'`)
	// yamlParser matches the errors whose line the library counts from 0: the parser's, not the scanner's.
	yamlParser = regexp.MustCompile(`did not find expected (key|node content|',' or|'-' indicator|<)`)
)

// yamlError rewrites an error of the YAML library, whose lines count from the document's start.
func (d *kubeadmDoc) yamlError(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	var types *yaml.TypeError
	if errors.As(err, &types) {
		text = types.Errors[0]
	}
	offset := d.line - 1
	if yamlParser.MatchString(text) {
		offset++
	}
	text = yamlLine.ReplaceAllStringFunc(text, func(s string) string {
		n, _ := strconv.Atoi(strings.TrimPrefix(s, "line ")) // digits
		return "line " + strconv.Itoa(offset+n)
	})
	at := strconv.Itoa(d.line)
	if m := yamlLine.FindStringSubmatch(text); m != nil && strings.HasPrefix(text, m[0]+": ") {
		at, text = m[1], strings.TrimPrefix(text, m[0]+": ")
	} else if m := yamlAnchor.FindStringSubmatch(text); m != nil {
		before, _, _ := strings.Cut(d.text, "*"+m[1])
		at = strconv.Itoa(d.line + strings.Count(before, "\n"))
	}
	return fmt.Errorf("%s:%s: read YAML: %s", d.file, at, text)
}

// prepend puts comments before the document.
func (d *kubeadmDoc) prepend(comments string) error {
	if comments != "" && !strings.HasSuffix(comments, "\n") {
		comments += d.newline()
	}
	d.text = comments + d.text
	d.line -= strings.Count(comments, "\n")
	return d.parse()
}

// newline is the line end that the document uses.
func (d *kubeadmDoc) newline() string {
	if strings.Contains(d.separator+d.text, "\r\n") {
		return "\r\n"
	}
	return "\n"
}

// separatorComment returns the comment of a "--- # comment" line as a line of its own.
func separatorComment(separator string) string {
	return strings.TrimLeft(strings.TrimPrefix(separator, documentSeparator), " \t\r\n")
}
