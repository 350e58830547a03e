package state

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A field that was added without `go generate` would be shared by a copy and what it was copied from.
func TestDeepCopy(t *testing.T) {
	record := &Record{}
	fill(reflect.ValueOf(record).Elem())
	copied := record.DeepCopy()
	if diff := cmp.Diff(record, copied); diff != "" {
		t.Errorf("copy (-want +got):\n%s", diff)
	}
	for _, path := range shared(reflect.ValueOf(record).Elem(), reflect.ValueOf(copied).Elem(), "") {
		t.Errorf("%s is shared: run `go generate ./api/state ./api/config`", path)
	}
}

// fill gives every field a value.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(value)
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	default:
		panic("a kind of field that documents do not have: " + v.Kind().String())
	}
}

// shared are the paths of pointers, lists and maps that two values have in common.
func shared(a, b reflect.Value, path string) []string {
	var paths []string
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			paths = append(paths, shared(a.Field(i), b.Field(i), path+"."+a.Type().Field(i).Name)...)
		}
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if a.Pointer() == b.Pointer() {
			return []string{path}
		}
		if a.Kind() == reflect.Slice {
			paths = shared(a.Index(0), b.Index(0), path+"[0]")
		} else if a.Kind() == reflect.Pointer {
			paths = shared(a.Elem(), b.Elem(), path)
		}
	}
	return paths
}
