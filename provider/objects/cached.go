package objects

import "k8s.io/client-go/tools/cache"

// List returns the objects of an informer's store, all of which are of type T. They belong to the cache: do not change them.
func List[T any](store cache.Store) []T {
	objects := store.List()
	typed := make([]T, 0, len(objects))
	for _, object := range objects {
		typed = append(typed, object.(T))
	}
	return typed
}
