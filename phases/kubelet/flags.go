package kubelet

import (
	"fmt"
	"slices"
	"strings"
)

// Flag is one of the kubelet's as it stands in a file: --name=value, --name value, or --name. Nth counts those of one
// name.
type Flag struct {
	Name, Text string
	nth        int
}

func flagsOf(args string) []Flag {
	var list []Flag
	count := map[string]int{}
	for word := range strings.FieldsSeq(args) {
		if !strings.HasPrefix(word, "-") && len(list) > 0 {
			list[len(list)-1].Text += " " + word
			continue
		}
		name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
		list = append(list, Flag{name, word, count[name]})
		count[name]++
	}
	return list
}

// In is where a list has the flag; below zero: it has not.
func (f Flag) In(list []Flag) int {
	return slices.IndexFunc(list, func(other Flag) bool { return other.Name == f.Name && other.nth == f.nth })
}

// WithoutFlag is the text of kubeadm's file without a flag; false: it is not as kubeadm writes it.
func WithoutFlag(text, name string) (string, bool) {
	env, flags, ok := EnvOf(text)
	var kept []string
	for _, f := range flags {
		if f.Name != name {
			kept = append(kept, f.Text)
		}
	}
	if len(kept) == len(flags) {
		return text, ok
	}
	return EnvText(env, kept), ok
}

// EnvOf reads NAME="flags", which is one line where it is as kubeadm writes it.
func EnvOf(text string) (name string, flags []Flag, ok bool) {
	name, value, ok := strings.Cut(strings.TrimSpace(text), "=")
	value = strings.Trim(value, `"`)
	return name, flagsOf(value), ok && !strings.ContainsAny(value, "\n\"")
}

// EnvText is the opposite of envOf.
func EnvText(name string, flags []string) string {
	return fmt.Sprintf("%s=\"%s\"\n", name, strings.Join(flags, " "))
}
