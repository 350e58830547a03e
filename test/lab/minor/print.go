//go:build ignore

// One of the programs of a minor version of Kubernetes, which prints its flags and feature gates instead of running. It
// is compiled in the module of that minor, with the file of one component beside it:
//
//	cd test/lab/kubernetes-1.37 && go run ../minor/print.go ../minor/kubelet.go
//
// A program of its own for each component, since some register flags and gates for all that is linked with them.
package main

import (
	"encoding/json"
	"log"
	"os"
	"strings"

	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

type flag struct {
	Default    string `json:"default,omitempty"`
	Deprecated string `json:"deprecated,omitempty"`
}

type gate struct {
	Stage   string `json:"stage,omitempty"`
	Default bool   `json:"default,omitempty"`
	Locked  bool   `json:"locked,omitempty"`
}

func main() {
	var component struct {
		Flags map[string]flag `json:"flags"`
		Gates map[string]gate `json:"gates"`
	}
	component.Flags, component.Gates = map[string]flag{}, map[string]gate{}
	for _, set := range flags() {
		// Components take an underscore for a dash.
		set.VisitAll(func(f *pflag.Flag) {
			component.Flags[strings.ReplaceAll(f.Name, "_", "-")] = flag{Default: f.DefValue, Deprecated: f.Deprecated}
		})
	}
	for name, specs := range utilfeature.DefaultMutableFeatureGate.GetAllVersioned() {
		last := specs[len(specs)-1]
		component.Gates[string(name)] = gate{Stage: string(last.PreRelease), Default: last.Default, Locked: last.LockToDefault}
	}
	if err := json.NewEncoder(os.Stdout).Encode(component); err != nil {
		log.Fatal(err)
	}
}
