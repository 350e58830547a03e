package schema_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/docs/schema"
	"github.com/ccmadm/ccmadm/templates"
)

var update = flag.Bool("update", false, "rewrite docs/schema from the Go types")

// documents are the Go types of the kinds.
var documents = map[string]reflect.Type{
	config.ConfigKind:    reflect.TypeFor[config.CloudConfiguration](),
	config.OnPremKind:    reflect.TypeFor[config.OnPremConfiguration](),
	config.InventoryKind: reflect.TypeFor[config.Inventory](),
	state.RecordKind:     reflect.TypeFor[state.Record](),
	templates.Kind:       reflect.TypeFor[templates.Profile](),
}

// TestGenerated keeps docs/schema as the Go types and their comments say.
func TestGenerated(t *testing.T) {
	sources := readSources(t, "../../api/v1alpha1", "../../api/config", "../../api/state", "../../templates")
	if len(schema.Kinds()) != len(documents) {
		t.Errorf("kinds are %v, with %d Go types", schema.Kinds(), len(documents))
	}
	for _, kind := range schema.Kinds() {
		document := sources.document(kind, documents[kind])
		for _, path := range undescribed(document, kind) {
			t.Errorf("%s has no comment", path)
		}
		want := encode(t, document)
		if *update {
			if err := os.WriteFile(schema.FileName(kind), want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := schema.Of(kind)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s: run `go generate ./docs/schema` (-want +got):\n%s", schema.FileName(kind), diff)
		}
	}
}

// undescribed are the paths of fields of which an editor could say nothing.
func undescribed(n *node, path string) []string {
	var paths []string
	for name, child := range n.Properties {
		at := path + "." + name
		if child.Description == "" && name != "apiVersion" && name != "kind" {
			paths = append(paths, at)
		}
		paths = append(paths, undescribed(child, at)...)
	}
	if n.Items != nil {
		paths = append(paths, undescribed(n.Items, path+"[]")...)
	}
	return paths
}

func encode(t *testing.T, doc any) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(doc); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
