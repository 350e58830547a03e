package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// UnitVariable is what systemd gives a unit's program in an environment variable; false: it is not set. The unit is as
// `systemctl cat` shows it. Its files win over its own assignments, and of each the last one counts; the file except is
// left out.
func (m *Machine) UnitVariable(unit, name, except string) (string, bool, error) {
	var assigned, files []string
	for _, line := range settingLines(unit) {
		setting, value, _ := strings.Cut(line, "=")
		switch value = strings.TrimSpace(value); strings.TrimSpace(setting) {
		case "Environment":
			assigned = append(assigned, unquote(value, " \t")...)
			if value == "" {
				assigned = nil
			}
		case "EnvironmentFile":
			files = append(files, strings.TrimPrefix(value, "-"))
			if value == "" {
				files = nil
			}
		}
	}
	for _, file := range files {
		if file == except {
			continue
		}
		more, err := m.environmentFile(file)
		if err != nil {
			return "", false, err
		}
		assigned = append(assigned, more...)
	}
	for _, a := range slices.Backward(assigned) {
		if value, is := strings.CutPrefix(a, name+"="); is {
			return value, true, nil
		}
	}
	return "", false, nil
}

// environmentFile lists the assignments of a file. Blanks belong to a value there, and it is quoted as a whole.
func (m *Machine) environmentFile(path string) ([]string, error) {
	data, err := m.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read an environment file of the kubelet's unit: %w", err)
	}
	var list []string
	for _, line := range settingLines(string(data)) {
		name, value, _ := strings.Cut(line, "=")
		if value = strings.TrimSpace(value); strings.HasPrefix(value, `"`) || strings.HasPrefix(value, "'") {
			value = strings.Join(unquote(value, ""), "")
		}
		list = append(list, strings.TrimSpace(name)+"="+value)
	}
	return list, nil
}

// settingLines are the lines that are no comment; one that ends with a backslash goes on in the next.
func settingLines(text string) []string {
	var lines []string
	begun := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		if part, goesOn := strings.CutSuffix(line, `\`); goesOn {
			begun += part + " "
			continue
		}
		lines = append(lines, begun+line)
		begun = ""
	}
	return append(lines, begun)
}

// unquote splits at blanks outside of quotation marks, and takes these and backslashes away as systemd does.
func unquote(text, blanks string) []string {
	var list []string
	var word strings.Builder
	var quote rune
	begun, escaped := false, false
	for _, r := range text {
		switch {
		case escaped:
			if !strings.ContainsRune("\"'\\`$ ", r) {
				word.WriteByte('\\')
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			begun, escaped = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			begun, quote = true, r
		case quote == 0 && strings.ContainsRune(blanks, r):
			if begun {
				list = append(list, word.String())
				word.Reset()
			}
			begun = false
		default:
			begun = true
			word.WriteRune(r)
		}
	}
	if begun {
		list = append(list, word.String())
	}
	return list
}
