package redact

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

var (
	separator   = regexp.MustCompile(`(?m)^---[ \t]*$`)
	cloudConfig = regexp.MustCompile(`(?i)cloud.?conf|cloud\.ini|azure\.json|clouds\.ya?ml`)
	assignment  = regexp.MustCompile(`^([ \t]*["']?[\w.-]+["']?[ \t]*[=:]).*$`)
	section     = regexp.MustCompile(`^[ \t]*\[[\w." -]+\][ \t]*$`)
)

// lastApplied is a second copy of the object, as text.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Document takes credentials out of YAML or JSON documents by what they are: data of Secrets, values of variables,
// arguments, keys of a kubeconfig, and fields whose name says so. Comments go. What is not such a document is taken as
// text.
func Document(data []byte) []byte {
	var out [][]byte
	for _, text := range separator.Split(string(data), -1) {
		redacted, is := document(text)
		if !is {
			redacted = Text(text)
		}
		out = append(out, []byte(redacted))
	}
	return bytes.Join(out, []byte("---\n"))
}

// document tells whether the text is one, a list or a map.
func document(text string) (string, bool) {
	if strings.HasPrefix(strings.TrimSpace(text), "{") && !json.Valid([]byte(text)) {
		text = Text(text) // a sentence in braces, as Go prints what it has, falls apart when it is read as YAML
	}
	var value any
	if yaml.Unmarshal([]byte(text), &value) != nil {
		return "", false
	}
	switch value.(type) {
	case map[string]any, []any:
	default:
		return "", false
	}
	data, err := yaml.Marshal(Value(value))
	return string(data), err == nil
}

// Value is Document for what has been decoded: maps, lists and what is in them. It changes them in place.
func Value(value any) any { return walk(value, "", false) }

// walk goes through a value, which stands under a field; all says that nothing of it is to be kept but its form.
func walk(value any, under string, all bool) any {
	switch value := value.(type) {
	case map[string]any:
		return object(value, under, all)
	case []any:
		flag := ""
		for i, item := range value {
			text, is := item.(string)
			if is && under == "extraEnv" {
				value[i] = variable(text)
				continue
			}
			value[i] = walk(item, under, all || is && isSecretFlag(flag)) // under tells variables from other pairs
			flag = text
		}
	case string:
		if all || Secret(under) && !harmless(value) {
			return Mark
		}
		return nested(value)
	case float64, int64:
		if all || Secret(under) {
			return Mark
		}
	}
	return value
}

func object(m map[string]any, under string, all bool) any {
	kind, _ := m["kind"].(string)
	name, pair := m["name"].(string)
	for field, item := range m {
		switch {
		case field == "managedFields" || field == lastApplied:
			delete(m, field)
		case field == "value" && pair && (isEnv(under) && !strings.HasPrefix(name, "KUBERNETES_SERVICE_") || Secret(name)):
			m[field] = Mark
		case kind == "Secret" && (field == "data" || field == "stringData"), field == "auths", field == "auth-provider":
			m[field] = walk(item, field, true)
		case kind == "ConfigMap" && field == "data":
			m[field] = configMap(item)
		default:
			m[field] = walk(item, field, all || holds(field, item))
		}
	}
	keys(m)
	return m
}

// keys takes credentials out of the names of fields: what looks like a map may be a sentence in braces.
func keys(m map[string]any) {
	for field, item := range m {
		if redacted := Text(field); redacted != field {
			delete(m, field)
			m[redacted] = item
		}
	}
}

func isEnv(under string) bool { return under == "env" || under == "extraEnvs" }

// variable keeps the name of NAME=value.
func variable(text string) string {
	if name, value, assigns := strings.Cut(text, "="); assigns && value != "" {
		return name + "=" + Mark
	}
	return text
}

// holds tells whether a list or a map has credentials in it, by the name of its field: all, where it does not only name
// objects and files, as imagePullSecrets and volumes do.
func holds(field string, item any) bool {
	if !Secret(field) && !Secret(strings.TrimSuffix(field, "s")) {
		return false
	}
	switch item := item.(type) {
	case []any:
		return slices.ContainsFunc(item, func(x any) bool { _, is := x.(map[string]any); return !is })
	case map[string]any:
		for _, reference := range []string{"name", "secretName", "path", "file", "key", "secretRef", "secretKeyRef", "token"} {
			if _, refers := item[reference]; refers {
				return false
			}
		}
		return true
	}
	return false
}

// configMap has files in it; those of clouds keep no value.
func configMap(data any) any {
	files, is := data.(map[string]any)
	if !is {
		return walk(data, "", true)
	}
	for name, content := range files {
		text, is := content.(string)
		switch {
		case is && cloudConfig.MatchString(name):
			files[name] = string(Keys([]byte(text)))
		default:
			files[name] = walk(content, name, false)
		}
	}
	return files
}

// nested is a string that may be a file in itself.
func nested(text string) string {
	trimmed := strings.TrimSpace(text)
	list := strings.HasPrefix(trimmed, "[") && json.Valid([]byte(trimmed)) // else it is a word in brackets
	if strings.Contains(text, "\n") || strings.HasPrefix(trimmed, "{") || list {
		if strings.Contains(text, "\n---") {
			return string(Document([]byte(text)))
		}
		if redacted, is := document(text); is {
			return redacted
		}
	}
	return Text(text)
}

// Keys keeps of a cloud's configuration which settings it has, and no value: nobody knows which of them are secret.
func Keys(data []byte) []byte {
	var value any
	if yaml.Unmarshal(data, &value) == nil {
		if m, is := value.(map[string]any); is {
			if out, err := yaml.Marshal(walk(m, "", true)); err == nil {
				return out
			}
		}
	}
	var out strings.Builder
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\r\n")
		switch parts := assignment.FindStringSubmatch(line); {
		case strings.TrimSpace(line) == "":
		case section.MatchString(line):
			out.WriteString(line + "\n")
		case parts != nil:
			out.WriteString(parts[1] + " " + Mark + "\n")
		default: // a comment, or the second line of a value
			out.WriteString(Mark + "\n")
		}
	}
	return []byte(out.String())
}
