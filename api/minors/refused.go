package minors

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// Refusal is why a program of a minor version ends with what it is given.
type Refusal string

// The refusals.
const (
	Accepted Refusal = ""
	// Removed was there in an earlier minor.
	Removed Refusal = "removed"
	// Unknown was in no minor that ccmadm knows: mistyped, or of a program that upstream has not built.
	Unknown Refusal = "unknown"
	// Locked is a feature gate that takes another value only.
	Locked Refusal = "locked"
)

// Flag tells whether a component of a minor, as "1.37", has a flag of that name, and why not, for people. What no table
// has is accepted.
func (h History) Flag(component, flag, minor string) (Refusal, string) {
	m, known := h.Of(minor)
	flags, asked := m.Flags[component]
	_, has := flags[flag]
	if !known || !asked || has || slices.Contains([]string{"help", "version"}, flag) { // which are added when it runs
		return Accepted, ""
	}
	return unknown(fmt.Sprintf("%s %s does not know --%s", component, minor, flag), h.FlagRemoved(component, flag, minor))
}

// Gate tells whether a component of a minor takes a value, "true" or "false", of a feature gate, and why not, for people.
// An empty value is not judged.
func (h History) Gate(component, gate, value, minor string) (Refusal, string) {
	m, known := h.Of(minor)
	_, asked := m.Flags[component]
	if !known || !asked || component == "etcd" || slices.Contains([]string{"AllAlpha", "AllBeta"}, gate) {
		return Accepted, "" // etcd's are its own; AllAlpha and AllBeta stand for others
	}
	g, has := m.FeatureGates[gate]
	if !has || slices.Contains(g.UnknownTo, component) {
		return unknown(fmt.Sprintf("%s %s does not know the feature gate %s", component, minor, gate), h.GateRemoved(component, gate, minor))
	}
	if on, err := strconv.ParseBool(value); err == nil && g.Locked && on != g.Default {
		return Locked, fmt.Sprintf("%s %s does not take %s=%t: the feature gate is locked to %t", component, minor, gate, on, g.Default)
	}
	return Accepted, ""
}

// Gates takes the value of --feature-gates apart: names and values. Those of a control plane's programs may have a component in front,
// of which kube is their own (k8s.io/component-base/compatibility); others are not judged.
func Gates(value string) iter.Seq2[string, string] {
	return func(yield func(gate, value string) bool) {
		for pair := range strings.SplitSeq(value, ",") {
			gate, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
			if component, own, has := strings.Cut(gate, ":"); has {
				if component != "kube" {
					continue
				}
				gate = own
			}
			if !yield(gate, value) {
				return
			}
		}
	}
}

// KubeadmGate is [History.Gate] for kubeadm's own feature gates.
func (h History) KubeadmGate(gate, minor string) (Refusal, string) {
	m, known := h.Of(minor)
	if !known || slices.Contains(m.Kubeadm.Gates, gate) {
		return Accepted, ""
	}
	return unknown(fmt.Sprintf("kubeadm %s does not know its feature gate %s", minor, gate), h.KubeadmGateRemoved(gate, minor))
}

// ReadsKubeadmAPI tells whether kubeadm of a minor reads files of the version of its API. What no table has is not read.
func (h History) ReadsKubeadmAPI(apiVersion, minor string) bool {
	m, known := h.Of(minor)
	_, reads := m.Kubeadm.API[apiVersion]
	return reads || !known
}

// unknown adds since which minor something is gone.
func unknown(why, since string) (Refusal, string) {
	if since == "" {
		return Unknown, why
	}
	return Removed, why + ", which was removed in " + since
}

// PatchTarget is the target of kubeadm's patches with which the name of a file begins, in any minor; empty: none.
func (h History) PatchTarget(file string) string {
	for _, e := range slices.Backward(h) {
		for _, target := range e.Kubeadm.Patches {
			if strings.HasPrefix(file, target) {
				return target
			}
		}
	}
	return ""
}

// PatchTargetSince is the oldest known minor whose kubeadm has the target.
func (h History) PatchTargetSince(target string) (minor string, known bool) {
	for _, e := range h {
		if slices.Contains(e.Kubeadm.Patches, target) {
			return e.Name, true
		}
	}
	return "", false
}
