package kubelet

import (
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// Whose says which machine a step is for. Who answers at the address of a Node need not be that machine: a kubelet says
// of itself which addresses it has, and those of two machines may be the same.
type Whose struct {
	// Node is the Node that its kubelet is; empty: any.
	Node string `json:"node,omitempty"`
	// CAs are the hashes of its cluster's CAs, of which one is enough; none: any.
	CAs []string `json:"caCertHashes,omitempty"`
}

// WhoseMachine is what the kubelet's own kubeconfig says; empty where it cannot be read.
func WhoseMachine(m *machine.Machine) Whose {
	cas, _ := identity.CAsOfKubelet(m)
	return Whose{Node: workflow.NodeOfKubelet(m), CAs: cas}
}

// Check tells a machine that is not the one that is meant.
func (w Whose) Check(is Whose) error {
	switch {
	case w.Node != "" && is.Node == "", len(w.CAs) > 0 && len(is.CAs) == 0:
		return finding.Refusedf("it does not report that it is Node/%s of this cluster: its ccmadm is older, or its kubelet's "+
			"kubeconfig cannot be read", w.Node)
	case w.Node != "" && is.Node != w.Node:
		return finding.Refusedf("it is the machine of Node/%s, and not of Node/%s", finding.Clean(is.Node), w.Node)
	case len(w.CAs) > 0 && !slices.ContainsFunc(is.CAs, func(ca string) bool { return slices.Contains(w.CAs, ca) }):
		return finding.Refusedf("its kubelet belongs to another cluster, with another CA")
	}
	return nil
}

// Flags are the flags by which a command refuses every other machine.
func (w Whose) Flags() []string {
	return []string{"--node=" + w.Node, "--ca-cert-hash=" + strings.Join(w.CAs, ",")}
}
