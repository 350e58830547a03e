package lint

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/manifests/edit"
)

const byteOrderMark = "\ufeff"

// File is one file of manifests.
type File struct {
	// Name leads errors and findings.
	Name string

	bom  string
	docs []*edit.Document
}

// Parse reads a file of YAML or JSON documents.
func Parse(name string, data []byte) (*File, error) {
	if err := edit.CheckEncoding(name, data); err != nil {
		return nil, err
	}
	f := &File{Name: name}
	text, hadMark := strings.CutPrefix(string(data), byteOrderMark)
	if hadMark {
		f.bom = byteOrderMark
	}
	if line := helmLine(text); line > 0 {
		return nil, fmt.Errorf("%s:%d: a Helm template: check what `helm template` makes of it", name, line)
	}
	var err error
	if f.docs, err = edit.Split(name, text); err != nil {
		return nil, err
	}
	for _, d := range f.docs {
		if err := d.Parse(); err != nil {
			if line := jinjaLine(text); line > 0 {
				return nil, fmt.Errorf("%s:%d: a Jinja template: check what Ansible makes of it", name, line)
			}
			return nil, err
		}
		if d.Root != nil && d.Root.Kind != kyaml.MappingNode {
			return nil, d.Errorf(d.Root, "not a manifest: want a mapping with apiVersion and kind")
		}
	}
	return f, nil
}

// helm is what no manifest has: text in braces as such occurs in ConfigMaps.
var helm = regexp.MustCompile(
	`\{\{-?\s*(\.Values|\.Release|\.Chart|\.Capabilities|include |template |toYaml |if |end\b|range |with |define )`,
)

func helmLine(text string) int { return lineOf(helm, text) }

// jinja is a statement, or a value that starts with an expression without quotes. Quoted ones are YAML.
var jinja = regexp.MustCompile(`\{%[-+]?\s*\w|(?m)^[^'"#\n]*:\s+\{\{`)

func jinjaLine(text string) int { return lineOf(jinja, text) }

func lineOf(pattern *regexp.Regexp, text string) int {
	if at := pattern.FindStringIndex(text); at != nil {
		return strings.Count(text[:at[0]], "\n") + 1
	}
	return 0
}

// Bytes returns the file with the fixes made so far.
func (f *File) Bytes() []byte {
	var b bytes.Buffer
	b.WriteString(f.bom)
	for _, d := range f.docs {
		b.WriteString(d.Separator)
		b.WriteString(d.Text)
	}
	return b.Bytes()
}

// add appends a document.
func (f *File) add(text string) error {
	d := f.docs[len(f.docs)-1].Next(text)
	if err := d.Parse(); err != nil {
		return err
	}
	f.docs = append(f.docs, &d)
	return nil
}

// object is one object of a document, the document itself or an item of a List.
type object struct {
	file *File
	doc  *edit.Document
	path []string // in the document
	node *kyaml.Node

	content                           map[string]any
	apiVersion, kind, namespace, name string
}

// String is Kind/namespace/name, or Kind/name.
func (o *object) String() string {
	parts := []string{o.kind, o.namespace, o.name}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "/")
}

// at returns the node at the path, or as far towards it as there is something.
func (o *object) at(path ...string) *kyaml.Node {
	for n := len(path); n > 0; n-- {
		if node := o.doc.At(o.full(path[:n]...)); node != nil {
			return node
		}
	}
	return o.node
}

// full is the path in the document.
func (o *object) full(path ...string) []string { return slices.Concat(o.path, path) }

func (o *object) decode(into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.content, into); err != nil {
		return o.doc.Errorf(o.node, "%s: %w", o, err)
	}
	return nil
}

// readObjects lists the objects of a document. What is none is left out.
func readObjects(f *File, d *edit.Document) ([]*object, error) {
	if d.Root == nil {
		return nil, nil
	}
	value, err := d.Value() // knows lines
	if err != nil {
		return nil, err
	}
	content, ok := asJSON(value)
	fields, isObject := content.(map[string]any)
	if !ok || !isObject { // dates and the like, which Kubernetes' own decoder knows how to take
		if err := yaml.Unmarshal([]byte(d.Text), &fields); err != nil {
			return nil, d.Errorf(d.Root, "%w", err)
		}
	}
	return flatten(&object{file: f, doc: d, node: d.Root, content: fields}), nil
}

// asJSON turns the numbers of a YAML value into JSON's; false where there is something that JSON has not.
func asJSON(value any) (any, bool) {
	ok := true
	switch v := value.(type) {
	case nil, string, bool, float64:
		return v, true
	case int:
		return int64(v), true
	case []any:
		for i := range v {
			var fine bool
			v[i], fine = asJSON(v[i])
			ok = ok && fine
		}
		return v, ok
	case map[string]any:
		for key := range v {
			var fine bool
			v[key], fine = asJSON(v[key])
			ok = ok && fine
		}
		return v, ok
	}
	return nil, false
}

// flatten fills an object, or returns the items of a List.
func flatten(o *object) []*object {
	o.apiVersion, _ = o.content["apiVersion"].(string)
	o.kind, _ = o.content["kind"].(string)
	if o.apiVersion == "" || o.kind == "" {
		return nil
	}
	if items, ok := o.content["items"].([]any); ok && strings.HasSuffix(o.kind, "List") {
		var list []*object
		for i, item := range items {
			path := o.full("items", strconv.Itoa(i))
			content, ok := item.(map[string]any)
			if node := o.doc.At(path); ok && node != nil && node.Kind == kyaml.MappingNode {
				list = append(list, flatten(&object{file: o.file, doc: o.doc, path: path, node: node, content: content})...)
			}
		}
		return list
	}
	meta, _ := o.content["metadata"].(map[string]any)
	o.name, _ = meta["name"].(string)
	o.namespace, _ = meta["namespace"].(string)
	return []*object{o}
}
