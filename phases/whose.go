package phases

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/machine"
)

// Whose says which machine a step is for. Who answers at the address of a Node need not be that machine: a kubelet says
// of itself which addresses it has, and those of two machines may be the same.
type Whose struct {
	// Node is the Node that its kubelet is; empty: any.
	Node string `json:"node,omitempty"`
	// CAs are the hashes of its cluster's CAs, of which one is enough; none: any.
	CAs []string `json:"caCertHashes,omitempty"`
}

// whoseMachine is what the kubelet's own kubeconfig says; empty where it cannot be read.
func whoseMachine(m *machine.Machine) Whose {
	cas, _ := identity.CAsOfKubelet(m)
	return Whose{Node: nodeOfKubelet(m), CAs: cas}
}

// whose is the machine that a run means by a node.
func whose(d *Data, n *plannedNode) (Whose, error) {
	config, err := restConfig(d, machine.AdminConf)
	if err != nil {
		return Whose{}, err
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		return Whose{}, fmt.Errorf("read the CA of the cluster: %w", err)
	}
	w := Whose{Node: n.name, CAs: identity.Pins(config.CAData)}
	if len(w.CAs) == 0 {
		return w, finding.Refusedf("tell machines of this cluster from others: %s has no CA", machine.AdminConf)
	}
	return w, nil
}

// check tells a machine that is not the one that is meant.
func (w Whose) check(is Whose) error {
	switch {
	case w.Node != "" && is.Node == "", len(w.CAs) > 0 && len(is.CAs) == 0:
		return finding.Refusedf("it does not say which Node of which cluster it is, and is to be Node/%s: its ccmadm is "+
			"older, or its kubelet's kubeconfig cannot be read", w.Node)
	case w.Node != "" && is.Node != w.Node:
		return finding.Refusedf("it is the machine of Node/%s, and not of Node/%s", finding.Clean(is.Node), w.Node)
	case len(w.CAs) > 0 && !slices.ContainsFunc(is.CAs, func(ca string) bool { return slices.Contains(w.CAs, ca) }):
		return finding.Refusedf("its kubelet is in another cluster: that has another CA")
	}
	return nil
}

func (w Whose) flags() []string {
	return []string{"--node=" + w.Node, "--ca-cert-hash=" + strings.Join(w.CAs, ",")}
}

// HoldForUpgrade refuses to upgrade another machine than the one that is meant, and waits for an upgrade that is at
// work here: one over SSH may outlive the run that has begun it. No other one begins until it is released.
func HoldForUpgrade(ctx context.Context, d *Data, w Whose) (release func(), err error) {
	there, err := d.Machine.Exists(machine.KubeletConf)
	if err != nil {
		return nil, err
	}
	if err := w.check(whoseMachine(d.Machine)); err != nil {
		return nil, finding.Refusedf("upgrade this machine: %w", err).WithHint("nothing was changed")
	}
	if !there || !d.Machine.Superuser { // which its preflight refuses
		return func() {}, nil
	}
	return aloneHere(ctx, d, upgradeTakes)
}

// sharesAddress names another Node that has the address to which steps over SSH would go; empty: there is none. Those
// that are skipped are looked past: whoever answers says which Node it is.
func (n *plannedNode) sharesAddress(plan []*plannedNode) string {
	own := parseAddresses(n.ip)
	for _, other := range plan {
		if other.name != n.name && !other.skipped && len(own) > 0 && slices.Contains(parseAddresses(other.ip), own[0]) {
			return other.name
		}
	}
	return ""
}

func parseAddresses(list string) (addrs []netip.Addr) {
	for text := range strings.SplitSeq(list, ",") {
		if addr, err := netip.ParseAddr(text); err == nil {
			addrs = append(addrs, addr.Unmap())
		}
	}
	return addrs
}
