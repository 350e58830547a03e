// Package v1alpha1 has every document of ours, API group ccmadm.dev: their types, defaults, validation, the one strict
// decoder, and the names of objects, labels and annotations.
//
// Start at [CloudConfiguration], which a user writes, and [Record], which a cluster carries.
//
// It reads and writes nothing but the bytes that it is given, and imports no other package of ours but finding.
//
// +k8s:deepcopy-gen=package
// +groupName=ccmadm.dev
// +versionName=v1alpha1
package v1alpha1

//go:generate go run k8s.io/code-generator/cmd/deepcopy-gen@v0.36.3 --output-file zz_generated.deepcopy.go .
