package templates

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func oneOf[T ~string](path *field.Path, value T, allowed ...T) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, allowed)}
}

func listOf[T ~string](path *field.Path, values []T, allowed ...T) field.ErrorList {
	if len(values) == 0 {
		return field.ErrorList{field.NotSupported(path, T(""), allowed)}
	}
	var errs field.ErrorList
	for i, v := range values {
		errs = append(errs, oneOf(path.Index(i), v, allowed...)...)
	}
	return errs
}

// child is a field of path, which is nil for the profile itself.
func child(path *field.Path, name string) *field.Path {
	if path == nil {
		return field.NewPath(name)
	}
	return path.Child(name)
}
