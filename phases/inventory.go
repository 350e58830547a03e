package phases

import (
	"fmt"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/phases/machine"
	"github.com/ccmadm/ccmadm/templates"
)

// maxInventory leaves room in a Secret, which holds 1 MiB, for the provider's other files.
const maxInventory = 900 << 10

// addInventory puts a list of machines beside the provider's configuration file, and makes that point at it. Without a
// file of the user's, the smallest one that works is written.
func addInventory(files map[string][]byte, profile *templates.Profile, path string) error {
	if profile.Config == nil || profile.Config.Inventory == nil {
		return finding.Usagef("inventory: provider %s serves no list of machines", profile.Name)
	}
	config, list := profile.Config.File, profile.Config.Inventory
	if _, given := files[list.File]; given {
		return finding.Usagef("inventory: credentials has a key %s already", list.File).WithHint("leave out one of the two")
	}
	document, err := readFile("inventory", path)
	if err != nil {
		return err
	}
	if len(document) > maxInventory {
		return finding.Usagef("read inventory: %s has %d bytes, and a Secret holds no more than %d of it", path, len(document), maxInventory).
			WithHint("serve it from an https address, and name that in %s", config)
	}
	data, given := files[config]
	if !given {
		data = []byte(profile.Config.Example)
	}
	if files[config], err = setOnce(data, list.Setting, filepath.Join(machine.CloudConfigDir, list.File)); err != nil {
		return finding.Usagef("inventory: point %s at it: %w", config, err).WithHint("leave out the inventory here, or there")
	}
	files[list.File] = document
	return nil
}

// setOnce sets a key of a YAML document, a dotted path, and keeps the rest, comments too. It refuses to change a value
// that is there.
func setOnce(data []byte, key, value string) ([]byte, error) {
	document, err := yaml.Parse(string(data))
	if err != nil {
		return nil, fmt.Errorf("not YAML: %w", err)
	}
	keys := strings.Split(key, ".")
	parent, err := document.Pipe(yaml.LookupCreate(yaml.MappingNode, keys[:len(keys)-1]...))
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", key, err)
	}
	last := keys[len(keys)-1]
	if f := parent.Field(last); f != nil && f.Value.YNode().Value != value {
		return nil, fmt.Errorf("%s is %q there", key, f.Value.YNode().Value)
	}
	if err := parent.PipeE(yaml.SetField(last, yaml.NewStringRNode(value))); err != nil {
		return nil, fmt.Errorf("set %s: %w", key, err)
	}
	text, err := document.String()
	return []byte(text), err
}
