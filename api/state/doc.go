// Package state has what ccmadm writes down: [Record], the settings that a cluster carries, and [LocalState], what was done
// on a machine. Documents of earlier releases are read as before.
//
// +k8s:deepcopy-gen=package
package state

//go:generate sh -c "go run k8s.io/code-generator/cmd/deepcopy-gen@$(go list -m -f {{.Version}} k8s.io/api) --output-file zz_generated.deepcopy.go ."
