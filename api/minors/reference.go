package minors

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Reference is the page of documentation about supported versions.
func Reference() string {
	var b strings.Builder
	b.WriteString("# Kubernetes versions\n\n" +
		"`ccmadm init`, `join` and `adopt` work with kubeadm of the three newest minor versions of Kubernetes. `ccmadm upgrade` leads " +
		"to each of them from the minor version before it. Another version is refused before anything changes.\n\n" +
		"| Kubernetes | clusters are made of it | upgrade to it | tested release | etcd | CoreDNS |\n|---|---|---|---|---|---|\n")
	supported, history := Supported(), Load()
	for i, e := range slices.Backward(history) {
		from := "no"
		if i > 0 {
			from = "from " + history[i-1].Name
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", e.Name, yes(slices.Contains(supported, e.Name)), from, e.Kubernetes,
			e.Kubeadm.Etcd, e.Kubeadm.CoreDNS)
	}
	b.WriteString("\n## What changes from one to the next\n\n" +
		"What `ccmadm lint --kubernetes-version`, `ccmadm upgrade plan` and `ccmadm doctor` know of each minor version, as its programs " +
		"report it. A component ends when it is given a flag or a feature gate that is removed, or another value for a gate that is " +
		"locked.\n")
	for i, e := range slices.Backward(history) {
		if i == 0 {
			break
		}
		before := history[i-1]
		fmt.Fprintf(&b, "\n### %s\n\n", e.Name)
		for _, component := range slices.Sorted(maps.Keys(e.Flags)) {
			line(&b, "Flags removed from "+component, missing(before.Flags[component], e.Flags[component]))
		}
		line(&b, "Feature gates removed", missing(before.FeatureGates, e.FeatureGates))
		line(&b, "Feature gates locked", locked(before.FeatureGates, e.FeatureGates))
		line(&b, "Feature gates of kubeadm removed", slices.DeleteFunc(slices.Clone(before.Kubeadm.Gates), func(gate string) bool {
			return slices.Contains(e.Kubeadm.Gates, gate)
		}))
		line(&b, "Versions of kubeadm's API removed", missing(before.Kubeadm.API, e.Kubeadm.API))
	}
	return b.String()
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

func line(b *strings.Builder, title string, names []string) {
	if len(names) > 0 {
		fmt.Fprintf(b, "* %s: `%s`\n", title, strings.Join(names, "`, `"))
	}
}

// missing lists the keys of one map that another one has not, sorted.
func missing[V any](of, in map[string]V) []string {
	var names []string
	for name := range of {
		if _, ok := in[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// locked lists the gates that had a choice before.
func locked(before, now map[string]FeatureGate) []string {
	var names []string
	for name, g := range now {
		if was, ok := before[name]; ok && g.Locked && !was.Locked {
			names = append(names, fmt.Sprintf("%s=%t", name, g.Default))
		}
	}
	slices.Sort(names)
	return names
}
