package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"sigs.k8s.io/yaml"
)

// EncodeAll returns the document as YAML with every field, also those that are not set, so that a reader sees what
// there is to set.
func (c *CloudConfiguration) EncodeAll() ([]byte, error) {
	data, err := yaml.Marshal(everything(reflect.ValueOf(c).Elem()))
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", ConfigKind, err)
	}
	return data, nil
}

// everything is the value without the omitempty and omitzero of its fields.
func everything(v reflect.Value) any {
	if v.Kind() != reflect.Struct || v.Type().Implements(reflect.TypeFor[json.Marshaler]()) {
		if v.Kind() == reflect.Slice && v.IsNil() {
			return []string{}
		}
		return v.Interface()
	}
	fields := map[string]any{}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name != "" {
			fields[name] = everything(v.Field(i))
			continue
		}
		maps.Copy(fields, everything(v.Field(i)).(map[string]any)) // it is embedded, so it is a struct
	}
	return fields
}
