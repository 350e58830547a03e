package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/docs/schema"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/phases/journal"
)

// TestFields: no field of v1alpha1 goes, and none changes its type, its default or loses a value (ADR 45). fields.txt has
// them all; -update adds to it, and takes nothing away.
func TestFields(t *testing.T) {
	const path = "fields.txt"
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	promised, now := linesOf(string(data)), fieldsNow(t)
	if len(now) < 400 {
		t.Fatalf("%d fields were found, want those of all documents", len(now))
	}
	for _, field := range missing(promised, now) {
		t.Errorf("%s is promised in docs/schema/%s, and gone: see docs/adr/0045-stability-of-v1alpha1.md", field, path)
	}
	added := missing(now, promised)
	switch {
	case len(added) == 0:
	case *update:
		all := slices.Sorted(slices.Values(append(promised, added...)))
		if err := os.WriteFile(path, []byte(strings.Join(all, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("new fields are not in docs/schema/%s: run `make generate`: %s", path, strings.Join(added, "\n"))
	}
}

// TestFields_Gone: the comparison sees what it is for.
func TestFields_Gone(t *testing.T) {
	before := map[string]any{"type": "object", "properties": map[string]any{
		"a": map[string]any{"type": "string", "enum": []any{"One", "Two"}, "default": "One"},
		"b": map[string]any{"type": "array", "items": map[string]any{"type": "integer"}},
	}}
	after := map[string]any{"type": "object", "properties": map[string]any{
		"a": map[string]any{"type": "string", "enum": []any{"Two", "Three"}, "default": "Two"},
		"b": map[string]any{"type": "array", "items": map[string]any{"type": "string"}},
	}}
	gone := missing(flatten("K", before), flatten("K", after))
	slices.Sort(gone)
	want := []string{"K.a string = One", "K.a string default One", "K.b[] integer"}
	if !slices.Equal(gone, want) {
		t.Errorf("gone: %q, want %q", gone, want)
	}
}

// missing are the lines of a that b has not.
func missing(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(line string) bool { return slices.Contains(b, line) })
}

func linesOf(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return line == "" })
}

// fieldsNow are those of files and record by their schemas, of the journal by its Go type, and of objects by the definitions
// that a cluster gets.
func fieldsNow(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, kind := range schema.Kinds() {
		text, err := schema.Of(kind)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, flatten(kind, decoded(t, text))...)
	}
	run := sources{}.schema(reflect.TypeFor[journal.Run]())
	list = append(list, flatten(journal.RunKind, decoded(t, encode(t, run)))...)
	definitions, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range definitions {
		data, err := d.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, served(t, data)...)
	}
	return list
}

// served flattens the schema of v1alpha1 in a CustomResourceDefinition.
func served(t *testing.T, definition []byte) []string {
	t.Helper()
	var crd struct {
		Spec struct {
			Names    struct{ Kind string }
			Versions []struct {
				Name   string
				Served bool
				Schema struct{ OpenAPIV3Schema map[string]any }
			}
		}
	}
	if err := json.Unmarshal(definition, &crd); err != nil {
		t.Fatal(err)
	}
	for _, v := range crd.Spec.Versions {
		if v.Served && v1alpha1.GroupName+"/"+v.Name == v1alpha1.APIVersion {
			return flatten(crd.Spec.Names.Kind, v.Schema.OpenAPIV3Schema)
		}
	}
	t.Errorf("%s is not served in %s", crd.Spec.Names.Kind, v1alpha1.APIVersion)
	return nil
}

func decoded(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var n map[string]any
	if err := json.Unmarshal(text, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// flatten returns a line for each field with its type, and one for its default and each of its values.
func flatten(path string, n map[string]any) []string {
	kind, _ := n["type"].(string)
	line := strings.TrimSpace(path + " " + kind)
	list := []string{line}
	if n["default"] != nil {
		list = append(list, fmt.Sprintf("%s default %v", line, n["default"]))
	}
	values, _ := n["enum"].([]any)
	for _, value := range values {
		list = append(list, fmt.Sprintf("%s = %v", line, value))
	}
	properties, _ := n["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		child, _ := properties[name].(map[string]any)
		list = append(list, flatten(path+"."+name, child)...)
	}
	if items, ok := n["items"].(map[string]any); ok {
		list = append(list, flatten(path+"[]", items)...)
	}
	if values, ok := n["additionalProperties"].(map[string]any); ok {
		list = append(list, flatten(path+"{}", values)...)
	}
	return list
}
