package templates

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// CheckConfig says everything that the provider would miss in its files, given by name. Values never get into an
// error: not every provider keeps its secrets out of its configuration.
func (p *Profile) CheckConfig(files map[string][]byte) error {
	var errs []error
	data, there := files[p.Config.File]
	switch {
	case there:
		errs = append(errs, p.Config.check(data)...)
	case p.Config.Required:
		errs = append(errs, fmt.Errorf("provider %s needs a configuration file %s", p.Name, p.Config.File))
	}
	for _, c := range p.Credentials {
		if _, ok := files[c.Key]; !ok && c.Required {
			errs = append(errs, fmt.Errorf("provider %s needs credential %s: %s", p.Name, c.Key, c.Why))
		}
	}
	return errors.Join(errs...)
}

func (c Config) check(data []byte) []error {
	if c.Format == Opaque {
		return nil
	}
	has := iniKeys(data)
	if c.Format != INI {
		content := map[string]any{}
		if err := yaml.Unmarshal(data, &content); err != nil {
			return []error{fmt.Errorf("read %s: not %s", c.File, c.Format)}
		}
		has = func(key string) bool { return lookup(content, strings.Split(key, ".")) }
	}
	var errs []error
	for _, key := range c.RequiredKeys {
		if !has(key) {
			errs = append(errs, fmt.Errorf("read %s: key %s is missing or empty", c.File, key))
		}
	}
	return errs
}

func lookup(content map[string]any, path []string) bool {
	value, ok := content[path[0]]
	if !ok || value == nil || value == "" {
		return false
	}
	if len(path) == 1 {
		return true
	}
	inner, ok := value.(map[string]any)
	return ok && lookup(inner, path[1:])
}

// iniKeys finds "Section.key" the way gcfg, the parser of most providers, does: names in any case, and a section may
// have a quoted subsection.
func iniKeys(data []byte) func(string) bool {
	var keys []string
	section := ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok {
			name, _, _ = strings.Cut(name, "]")
			section, _, _ = strings.Cut(strings.TrimSpace(name), " ")
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if ok && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, ";") && strings.Trim(value, " \t\"") != "" {
			keys = append(keys, strings.ToLower(section+"."+strings.TrimSpace(key)))
		}
	}
	return func(key string) bool { return slices.Contains(keys, strings.ToLower(key)) }
}
