package config

import (
	"encoding/json"
	"maps"
	"reflect"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/kustomize/kyaml/yaml"
	syaml "sigs.k8s.io/yaml"
)

// fieldsOf are the types of a struct's fields by their names in JSON; those of an embedded struct are the outer one's.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	types := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" && f.Anonymous {
			maps.Copy(types, fieldsOf(f.Type))
		} else if name != "" && name != "-" {
			types[name] = f.Type
		}
	}
	return types
}

// fits tries the scalar as the decoder would.
func fits(node *yaml.Node, t reflect.Type) bool {
	raw, err := json.Marshal(node.Value)
	if plain := node.Style &^ yaml.FlowStyle; plain == 0 { // a number, true, or text without quotes
		raw, err = syaml.YAMLToJSON([]byte(node.Value))
	}
	return err == nil && kjson.UnmarshalCaseSensitivePreserveInts(raw, reflect.New(t).Interface()) == nil
}

// shown says for people what a node is.
func shown(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	default:
		const enough = 40 // a web page that came instead of a document
		if len(node.Value) > enough {
			return strconv.Quote(node.Value[:enough]) + "..."
		}
		return strconv.Quote(node.Value)
	}
}

// wanted says for people what the type takes.
func wanted(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[metav1.Duration]():
		return "a duration like 90s or 5m"
	case t.Kind() == reflect.Struct || t.Kind() == reflect.Map:
		return "a mapping"
	case t.Kind() == reflect.Slice:
		return "a list"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.String:
		return "text"
	default:
		return "a whole number"
	}
}
