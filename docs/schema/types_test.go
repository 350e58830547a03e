package schema_test

import (
	"reflect"
	"regexp"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// node is a part of a schema, its keywords in the order in which people read them.
type node struct {
	Schema      string           `json:"$schema,omitempty"`
	Title       string           `json:"title,omitempty"`
	Description string           `json:"description,omitempty"`
	Type        string           `json:"type,omitempty"`
	Const       string           `json:"const,omitempty"`
	Enum        []string         `json:"enum,omitempty"`
	Pattern     string           `json:"pattern,omitempty"`
	Default     any              `json:"default,omitempty"`
	Required    []string         `json:"required,omitempty"`
	OneOf       []node           `json:"oneOf,omitempty"`
	Properties  map[string]*node `json:"properties,omitempty"`
	Items       *node            `json:"items,omitempty"`
	// Additional is false, or the schema of a map's values.
	Additional any `json:"additionalProperties,omitempty"`
}

const durationPattern = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`

func (s sources) document(kind string, t reflect.Type) *node {
	n := s.schema(t)
	n.Schema, n.Title = "http://json-schema.org/draft-07/schema#", kind
	n.Properties["apiVersion"] = &node{Const: v1alpha1.APIVersion}
	n.Properties["kind"] = &node{Const: kind}
	n.Required = append([]string{"apiVersion", "kind"}, n.Required...)
	return n
}

func (s sources) schema(t reflect.Type) *node {
	switch {
	case t == reflect.TypeFor[metav1.Duration]():
		return &node{Type: "string", Pattern: durationPattern}
	case t == reflect.TypeFor[metav1.Time]():
		return &node{Type: "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.schema(t.Elem())
	case reflect.Struct:
		return s.object(t)
	case reflect.Slice:
		return &node{Type: "array", Items: s.schema(t.Elem())}
	case reflect.Map:
		return &node{Type: "object", Additional: s.schema(t.Elem())}
	case reflect.Bool:
		return &node{Type: "boolean"}
	case reflect.String:
		return &node{Type: "string", Enum: s.of(t).values}
	default:
		return &node{Type: "integer"}
	}
}

func (s sources) object(t reflect.Type) *node {
	n := &node{Type: "object", Properties: map[string]*node{}, Additional: false}
	text := s.of(t)
	n.Description, _ = cutMarkers(text.doc)
	s.fields(n, t)
	if _, markers := cutMarkers(text.doc); markers["oneOf"] != "" {
		for name := range strings.SplitSeq(markers["oneOf"], ",") {
			n.OneOf = append(n.OneOf, node{Required: []string{name}})
		}
	}
	return n
}

// fields adds those of a struct, and of what is embedded in it.
func (s sources) fields(n *node, t reflect.Type) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Type == reflect.TypeFor[metav1.TypeMeta]():
			n.Properties["apiVersion"], n.Properties["kind"] = &node{Const: v1alpha1.APIVersion}, &node{Type: "string"}
			continue
		case !f.IsExported() && !f.Anonymous, name == "-": // what a reader keeps for itself
			continue
		case name == "" && f.Anonymous:
			s.fields(n, f.Type)
			continue
		}
		if !strings.Contains(options, "omit") {
			n.Required = append(n.Required, name)
		}
		n.Properties[name] = s.property(f, s.of(t).fields[f.Name])
	}
}

func (s sources) property(f reflect.StructField, doc string) *node {
	n := s.schema(f.Type)
	description, markers := cutMarkers(doc)
	if description != "" {
		n.Description = description
	}
	target := n
	if n.Items != nil {
		target = n.Items
	}
	if markers["pattern"] != "" {
		target.Pattern = markers["pattern"]
	}
	if m := defaultText.FindStringSubmatch(description); m != nil {
		n.Default = valueOf(m[1], n.Type)
	}
	return n
}

// defaultText is how comments name a default, as far as it is a value and not a story.
var defaultText = regexp.MustCompile(`Default: "?([^\s"]+?)"?(?:\.$|\. |,? and )`)

func valueOf(text, kind string) any {
	switch kind {
	case "boolean":
		return text == "true"
	case "integer":
		if n, err := strconv.Atoi(text); err == nil {
			return n
		}
		return nil
	case "string":
		return text
	default:
		return nil
	}
}

// cutMarkers takes the lines +name=value off a comment, as Kubernetes' generators know them.
func cutMarkers(doc string) (string, map[string]string) {
	var text []string
	markers := map[string]string{}
	for line := range strings.Lines(doc) {
		if marker, ok := strings.CutPrefix(strings.TrimSpace(line), "+"); ok {
			name, value, _ := strings.Cut(marker, "=")
			markers[name] = value
			continue
		}
		text = append(text, line)
	}
	return strings.Join(strings.Fields(strings.Join(text, " ")), " "), markers
}
