// Package schema holds the JSON schemas of every document of ours (draft-07), so that an editor completes and checks a
// file while it is written. They are generated from the Go types and their comments, by this package's own test.
//
// Start at [Of]. In a file, yaml-language-server takes the first line
//
//	# yaml-language-server: $schema=https://raw.githubusercontent.com/ccmadm/ccmadm/main/docs/schema/cloudconfiguration.json
//
// or a path to what `ccmadm config schema` printed.
//
// It reads the embedded *.json and writes nothing.
package schema

import (
	"embed"
	"fmt"
	"strings"
)

//go:generate go test . -run "^(TestGenerated|TestFields)$" -count=1 -update

//go:embed *.json
var files embed.FS

// Kinds are those that have a schema: first what users write for a cluster, then the rest.
func Kinds() []string {
	return []string{"CloudConfiguration", "OnPremConfiguration", "Inventory", "ProviderProfile", "Record"}
}

// Of returns the schema of a kind; letters may be of either case.
func Of(kind string) ([]byte, error) {
	for _, known := range Kinds() {
		if strings.EqualFold(kind, known) {
			return files.ReadFile(FileName(known))
		}
	}
	return nil, fmt.Errorf("there is no schema of kind %q; there are %s", kind, strings.Join(Kinds(), ", "))
}

// FileName is the schema's in docs/schema.
func FileName(kind string) string { return strings.ToLower(kind) + ".json" }
