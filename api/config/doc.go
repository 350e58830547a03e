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

//go:generate go run k8s.io/code-generator/cmd/deepcopy-gen@v0.36.3 --output-file zz_generated.deepcopy.go .
