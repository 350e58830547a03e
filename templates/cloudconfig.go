package templates

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

func (p *Profile) knowsFile(name string) bool {
	if p.Config != nil && p.Config.File == name {
		return true
	}
	return slices.ContainsFunc(p.Credentials, func(c Credential) bool { return c.Key == name })
}

// RequiredFiles are the names of those without which the provider does not start.
func (p *Profile) RequiredFiles() []string {
	var names []string
	if p.Config != nil && p.Config.Required {
		names = append(names, p.Config.File)
	}
	for _, c := range p.Credentials {
		if c.Required {
			names = append(names, c.Key)
		}
	}
	return names
}

// CredentialEnv names, by the key of the credential, the environment variable that the provider reads it from; of
// several the first.
func (p *Profile) CredentialEnv() map[string]string {
	names := map[string]string{}
	for _, e := range p.Env {
		if e.Credential != "" && names[e.Credential] == "" {
			names[e.Credential] = e.Name
		}
	}
	return names
}

// CheckConfig says everything that the provider would miss in its files, given by name. The configuration file came
// from path, which errors name; empty: from elsewhere. Values never get into an error: not every provider keeps its
// secrets out of its configuration.
func (p *Profile) CheckConfig(files map[string][]byte, path string) error {
	var errs []error
	if p.Config != nil {
		data, there := files[p.Config.File]
		switch {
		case there:
			errs = append(errs, p.Config.check(cmp.Or(path, p.Config.File), data)...)
		case p.Config.Required:
			errs = append(errs, fmt.Errorf("provider %s needs a configuration file: --cloud-config, or cloudConfig.file%s",
				p.Name, p.Config.shown()))
		}
	}
	for _, c := range p.Credentials {
		if _, ok := files[c.Key]; !ok && c.Required {
			errs = append(errs, fmt.Errorf("provider %s needs credential %s: %s; give it with %s",
				p.Name, c.Key, c.Why, p.waysToGive(c.Key)))
		}
	}
	return errors.Join(errs...)
}

func (p *Profile) waysToGive(key string) string {
	ways := fmt.Sprintf("--credential %s=FILE, or `credentials: [{key: %s, file: FILE}]`", key, key)
	if name := p.CredentialEnv()[key]; name != "" {
		ways += ", or the environment variable " + name
	}
	return ways
}

// shown is the example for the end of an error.
func (c Config) shown() string {
	if c.Example == "" {
		return ""
	}
	return "; for example\n" + strings.TrimRight(c.Example, "\n")
}

func (c Config) check(name string, data []byte) []error {
	if c.Format == Opaque {
		return nil
	}
	has, err := c.keys(data)
	if err != nil {
		return []error{fmt.Errorf("read %s: not %s: %w%s", name, c.Format, err, c.shown())}
	}
	var missing []string
	for _, key := range c.RequiredKeys {
		if !has(key) {
			missing = append(missing, key)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return []error{fmt.Errorf("read %s: missing or empty: %s%s", name, strings.Join(missing, ", "), c.shown())}
}

var parserLine = regexp.MustCompile(`line \d+`)

// keys reads the file far enough to say which keys have a value.
func (c Config) keys(data []byte) (func(key string) bool, error) {
	if c.Format == INI {
		return iniKeys(data)
	}
	content := map[string]any{}
	if err := yaml.Unmarshal(data, &content); err != nil { // JSON is YAML too
		const want = "want a mapping of keys to values"
		if line := parserLine.FindString(err.Error()); line != "" { // the rest of the parser's words may quote a secret
			return nil, errors.New(line + ": " + want)
		}
		return nil, errors.New(want)
	}
	return func(key string) bool { return lookup(content, strings.Split(key, ".")) }, nil
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
