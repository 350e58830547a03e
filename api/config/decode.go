package config

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/kustomize/kyaml/yaml"
	syaml "sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// ErrEmpty is what [Text.Decode] finds in a text without a document. Some callers take that for the defaults.
var ErrEmpty = errors.New("there is nothing in it")

// Text is a document of ours in YAML or JSON, and where it was found.
//
// +k8s:deepcopy-gen=false
type Text struct {
	// Name is the file or object that has the text; it leads every error. May be empty.
	Name string
	// Line is where in the file the text starts, for a document among others. 0 means 1.
	Line int
	// Data is the text: one document, and comments.
	Data []byte
	// Lenient ignores fields that are not known: a newer ccmadm may have written them.
	Lenient bool
}

// Decode reads the one document into a type of ours, which embeds metav1.TypeMeta. Its error is a [Problems] with all
// that is wrong at once, each with line and field path: what is no YAML, a second document, another apiVersion or kind,
// unknown fields, keys that stand twice, values of a wrong type, and what validate says of all that could be read.
// validate runs on what was decoded; may be nil.
//
// Letters are taken as they are: NodeIP is not nodeIP. YAML is read as kubectl reads it (sigs.k8s.io/yaml).
func (t Text) Decode(kind string, into schema.ObjectKind, validate func() field.ErrorList) error {
	text, err := t.only()
	if err != nil {
		return t.problems(kind, Problem{Err: err})
	}
	raw, duplicates := syaml.YAMLToJSONStrict(text)
	if duplicates != nil {
		if raw, err = syaml.YAMLToJSON(text); err != nil { // it is not YAML
			return t.problems(kind, Problem{Line: lineIn(err), Err: err})
		}
	}
	if string(raw) == "null" {
		return t.problems(kind, Problem{Err: ErrEmpty})
	}
	strict, err := kjson.UnmarshalStrict(raw, into)
	if t.Lenient {
		strict = nil
	}
	if err != nil || duplicates != nil || len(strict) > 0 {
		return t.explain(kind, text, into, validate, errors.Join(append(strict, err, duplicates)...))
	}
	errs := t.validate(kind, into, validate)
	if len(errs) == 0 {
		return nil
	}
	found := newFinder(text, t.Lenient)
	found.add(errs)
	return t.problems(kind, found.problems...)
}

// only returns the text of the one document; empty ones beside it become empty lines, so that lines still count. A
// second one would be ignored, and a file that was cut off between two would pass for a shorter one: refuse both.
func (t Text) only() ([]byte, error) {
	data := bytes.TrimPrefix(t.Data, []byte("\ufeff")) // the mark of Windows' editors hides a comment behind it
	if !bytes.Contains(data, []byte("---")) {
		return data, nil
	}
	var found, chunk []byte
	full := 0 // documents with something in them
	end := func() {
		switch {
		case hasContent(chunk):
			full++
			found = append(found, chunk...)
		default:
			found = append(found, bytes.Repeat([]byte("\n"), bytes.Count(chunk, []byte("\n")))...)
		}
		chunk = nil
	}
	for line := range bytes.Lines(data) {
		rest, marked := bytes.CutPrefix(line, []byte("---"))
		if marked && (len(rest) == 0 || bytes.ContainsAny(rest[:1], " \t\r\n")) {
			end()
		}
		chunk = append(chunk, line...)
	}
	end()
	if full > 1 {
		return nil, errors.New("want one document, got more")
	}
	return found, nil
}

// hasContent tells a document from separators, comments and directives.
func hasContent(chunk []byte) bool {
	for line := range bytes.Lines(chunk) {
		line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("---")))
		if len(line) > 0 && !bytes.ContainsAny(line[:1], "#%") && string(line) != "..." {
			return true
		}
	}
	return false
}

// explain finds out where in the text the decoder's complaints are, and reads what is left once those are taken away,
// so that one look shows all that has to be changed.
func (t Text) explain(kind string, text []byte, into schema.ObjectKind,
	validate func() field.ErrorList, complaint error,
) error {
	found := newFinder(text, t.Lenient)
	found.look(reflect.TypeOf(into))
	if len(found.problems) == 0 { // then the two readers see different things
		return t.problems(kind, Problem{Err: complaint})
	}
	if found.root.Kind != yaml.MappingNode {
		return t.problems(kind, found.problems...)
	}
	value := reflect.ValueOf(into).Elem()
	value.SetZero()
	rest, err := found.rest()
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(rest, into)
	}
	if err == nil {
		found.add(t.validate(kind, into, validate))
	}
	return t.problems(kind, found.problems...)
}

// validate compares apiVersion and kind. If neither is right the document is of another program, and further errors mislead.
func (t Text) validate(kind string, into schema.ObjectKind, validate func() field.ErrorList) field.ErrorList {
	var errs field.ErrorList
	version, is := into.GroupVersionKind().ToAPIVersionAndKind()
	if version != v1alpha1.APIVersion {
		errs = append(errs, field.NotSupported(field.NewPath("apiVersion"), version, []string{v1alpha1.APIVersion}))
	}
	if is != kind {
		errs = append(errs, field.NotSupported(field.NewPath("kind"), is, []string{kind}))
	}
	if validate == nil || len(errs) == 2 {
		return errs
	}
	return append(errs, validate()...)
}

// problems puts the name before each, counts lines from the start of the file, and sorts by them.
func (t Text) problems(kind string, list ...Problem) error {
	last := bytes.Count(t.Data, []byte("\n")) + 1
	for i := range list {
		list[i].Kind, list[i].File = kind, t.Name
		line := min(max(list[i].Line, 1), last) // the YAML library also counts the line behind the last
		list[i].Line = line + max(t.Line, 1) - 1
	}
	slices.SortStableFunc(list, func(a, b Problem) int { return a.Line - b.Line })
	return Problems(list)
}

// Problem is one thing that is wrong with a document.
//
// +k8s:deepcopy-gen=false
type Problem struct {
	// Kind is the document's, as it should be.
	Kind string
	// File and Line say where. File is empty when the reader has no name for the text.
	File string
	Line int
	// Field is the path of the field, like controllerManager.extraArgs[0]. Empty: the document as a whole.
	Field string
	// Err is what is wrong; it names the field itself.
	Err error
}

// Error is one line: what was read, file, line, and what is wrong there.
func (p Problem) Error() string {
	what := p.Kind
	if what == "ProviderProfile" {
		what = "profile" // as everyone calls it
	}
	if p.File == "" {
		return fmt.Sprintf("read %s: line %d: %v", what, p.Line, p.Err)
	}
	return fmt.Sprintf("read %s %s:%d: %v", what, p.File, p.Line, p.Err)
}

// Unwrap returns what is wrong, without the place.
func (p Problem) Unwrap() error { return p.Err }

// Problems are all that is wrong with a document, by line.
//
// +k8s:deepcopy-gen=false
type Problems []Problem

// Error is one line for each.
func (p Problems) Error() string { return errors.Join(p.Unwrap()...).Error() }

// Unwrap returns the problems.
func (p Problems) Unwrap() []error {
	errs := make([]error, len(p))
	for i := range p {
		errs[i] = p[i]
	}
	return errs
}
