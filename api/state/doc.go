// Package state has what ccmadm writes down: [Record], the settings that a cluster carries, and [LocalState], what was done
// on a machine. Documents of earlier releases are read as before.
//
// +k8s:deepcopy-gen=package
package state

//go:generate go run k8s.io/code-generator/cmd/deepcopy-gen@v0.36.3 --output-file zz_generated.deepcopy.go .
