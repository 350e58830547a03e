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
			errs = append(errs, p.needs(c))
		}
	}
	return errors.Join(errs...)
}

// CheckNamed says which further credentials the configuration names that are neither among the files nor elsewhere. It is for
// files that a run is given: those in use work, and what they name may have come to the machines in another way.
func (p *Profile) CheckNamed(files map[string][]byte, elsewhere ...string) error {
	if p.Config == nil {
		return nil
	}
	var errs []error
	names := p.Config.names(files[p.Config.File])
	for _, c := range p.Credentials {
		if _, ok := files[c.Key]; !ok && !c.Required && names(c) && !slices.Contains(elsewhere, c.Key) {
			errs = append(errs, p.needs(c))
		}
	}
	return errors.Join(errs...)
}

func (p *Profile) needs(c Credential) error {
	return fmt.Errorf("provider %s needs credential %s: %s; give it with %s", p.Name, c.Key, c.Why, p.waysToGive(c.Key))
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
	value, err := c.values(data)
	if err != nil {
		return []error{fmt.Errorf("read %s: not %s: %w%s", name, c.Format, err, c.shown())}
	}
	var missing []string
	for _, key := range c.RequiredKeys {
		oneOf := strings.Split(key, " or ")
		if !slices.ContainsFunc(oneOf, func(key string) bool { // of several, one that is switched off is in no other's place
			v := value(key)
			return v != "" && (len(oneOf) == 1 || isOn(v))
		}) {
			missing = append(missing, key)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return []error{fmt.Errorf("read %s: missing or empty: %s%s", name, strings.Join(missing, ", "), c.shown())}
}

func isOn(value string) bool {
	return value != "" && !slices.Contains([]string{"false", "no", "off", "0"}, strings.ToLower(value))
}

var parserLine = regexp.MustCompile(`line \d+`)

// values reads the file far enough to say which value a key has; empty: none. Keys of JSON are found in any case, as encoding/json does.
func (c Config) values(data []byte) (func(key string) string, error) {
	if c.Format == INI {
		return iniValues(data)
	}
	content := map[string]any{}
	if err := yaml.Unmarshal(data, &content); err != nil { // JSON is YAML too
		const want = "want a mapping of keys to values"
		if line := parserLine.FindString(err.Error()); line != "" { // the rest of the parser's words may quote a secret
			return nil, errors.New(line + ": " + want)
		}
		return nil, errors.New(want)
	}
	same := func(a, b string) bool { return a == b }
	if c.Format == JSON {
		same = strings.EqualFold
	}
	return func(key string) string { return lookup(content, strings.Split(key, "."), same) }, nil
}

func lookup(content map[string]any, path []string, same func(string, string) bool) string {
	for key, value := range content {
		if !same(key, path[0]) || value == nil || value == "" {
			continue
		}
		if len(path) == 1 {
			return fmt.Sprint(value)
		}
		if inner, is := value.(map[string]any); is {
			if found := lookup(inner, path[1:], same); found != "" {
				return found
			}
		}
	}
	return ""
}

// names tells whether the file has the path that a credential has in the pod, and has the provider read it.
func (c Config) names(data []byte) func(Credential) bool {
	var text strings.Builder // without comments
	if c.Format == INI {
		for line := range strings.Lines(string(data)) {
			line, _ = uncommented(line)
			fmt.Fprintln(&text, line)
		}
	} else if content := map[string]any{}; c.Format != Opaque && yaml.Unmarshal(data, &content) == nil {
		fmt.Fprintln(&text, content)
	}
	value, err := c.values(data)
	return func(credential Credential) bool {
		if credential.Switch != "" && (err != nil || !isOn(value(credential.Switch))) {
			return false
		}
		return regexp.MustCompile(regexp.QuoteMeta(ConfigDir+"/"+credential.Key) + `[^\w.-]`).MatchString(text.String())
	}
}
