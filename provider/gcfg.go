package provider

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// isGCFG says whether a configuration is in the syntax of git-config, in which
// other providers have theirs: it begins with a section. A YAML document of ours
// never does.
func isGCFG(data []byte) bool {
	for line := range bytes.Lines(data) {
		if text := strings.TrimSpace(string(line)); text != "" && !strings.HasPrefix(text, "#") && !strings.HasPrefix(text,
			";") {
			return strings.HasPrefix(text, "[")
		}
	}
	return false
}

// readGCFG reads the plain settings, one to a line:
//
//	[Global]
//	site = ber1
//	instance-type = "generic"
//	[Inventory]
//	file = /etc/kubernetes/cloud-config/machines.yaml
//
// Letters may be of either case, as in git. What else there is to set needs YAML.
func readGCFG(data []byte) (v1alpha1.OnPremConfiguration, error) {
	c := v1alpha1.OnPremConfiguration{}
	c.APIVersion, c.Kind = v1alpha1.APIVersion, v1alpha1.OnPremKind
	settings := map[string]*string{
		"global.site": &c.Site, "global.region": &c.Region, "global.zone": &c.Zone, "global.instance-type": &c.InstanceType,
	}
	list := v1alpha1.InventorySource{}
	inventorySettings := map[string]*string{
		"inventory.file": &list.File, "inventory.config-map": &list.ConfigMap, "inventory.url": &list.URL, "inventory.ca-file": &list.CAFile,
	}
	var errs []error
	section, number := "", 0
	for raw := range bytes.Lines(data) {
		number++
		line := strings.TrimSpace(string(raw))
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
			continue
		case line[0] == '[' && strings.HasSuffix(line, "]"):
			section = strings.ToLower(strings.TrimSpace(line[1 : len(line)-1]))
			if section == "inventory" {
				c.Inventory = &list
			}
			continue
		}
		name, value, err := gcfgSetting(line)
		name = section + "." + name
		field := settings[name]
		if field == nil {
			field = inventorySettings[name]
		}
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("line %d: %w", number, err))
		case field == nil:
			errs = append(errs, fmt.Errorf("line %d: unknown setting %q", number, name))
		case *field != "":
			errs = append(errs, fmt.Errorf("line %d: %q is set already", number, name))
		default:
			*field = value
		}
	}
	return c, errors.Join(errs...)
}

// gcfgSetting takes a line apart. A value in double quotes may hold what would
// start a comment.
func gcfgSetting(line string) (name, value string, err error) {
	name, value, ok := strings.Cut(line, "=")
	name, value = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)
	if !ok || name == "" {
		return "", "", fmt.Errorf("want NAME = VALUE, got %q", line)
	}
	if quoted, isQuoted := strings.CutPrefix(value, `"`); isQuoted {
		value, rest, closed := strings.Cut(quoted, `"`)
		rest = strings.TrimSpace(rest)
		if !closed || strings.Contains(value, `\`) || rest != "" && rest[0] != '#' && rest[0] != ';' {
			return "", "", fmt.Errorf("%s: want one value in double quotes, without backslashes", name)
		}
		return name, value, nil
	}
	if comment := strings.IndexAny(value, "#;"); comment >= 0 {
		value = strings.TrimSpace(value[:comment])
	}
	if strings.ContainsAny(value, `"\`) {
		return "", "", fmt.Errorf("%s: put the value into double quotes", name)
	}
	return name, value, nil
}
