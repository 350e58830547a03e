// Package config has the files that people write, API group ccmadm.dev: their types, defaults, validation, and the one
// strict decoder.
//
// Start at [CloudConfiguration], which init, join and apply read, [OnPremConfiguration], that of the provider onprem, and
// [Inventory], its list of machines. [Text] is the decoder: an unknown field is an error with its line.
//
// It reads and writes nothing but the bytes that it is given.
//
// +k8s:deepcopy-gen=package
package config

//go:generate sh -c "go run k8s.io/code-generator/cmd/deepcopy-gen@$(go list -m -f {{.Version}} k8s.io/api) --output-file zz_generated.deepcopy.go ."
