package fleet

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
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// ExpectedMachine is the machine that a run means by a node.
func ExpectedMachine(env *workflow.Env, n *Node) (kubelet.Whose, error) {
	config, err := workflow.RESTConfig(env, machine.AdminConf)
	if err != nil {
		return kubelet.Whose{}, err
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		return kubelet.Whose{}, fmt.Errorf("read the CA of the cluster: %w", err)
	}
	w := kubelet.Whose{Node: n.Name, CAs: identity.Pins(config.CAData)}
	if len(w.CAs) == 0 {
		return w, finding.Refusedf("tell machines of this cluster from others: %s has no CA", machine.AdminConf)
	}
	return w, nil
}

// HoldForUpgrade refuses to upgrade another machine than the one that is meant, and waits for an upgrade that is at
// work here: one over SSH may outlive the run that has begun it. No other one begins until it is released.
func HoldForUpgrade(ctx context.Context, env *workflow.Env, w kubelet.Whose) (release func(), err error) {
	there, err := env.Machine.Exists(machine.KubeletConf)
	if err != nil {
		return nil, err
	}
	if err := w.Check(kubelet.WhoseMachine(env.Machine)); err != nil {
		return nil, finding.Refusedf("upgrade this machine: %w", err).WithHint("nothing was changed")
	}
	if !there || !env.Machine.Superuser { // which its preflight refuses
		return func() {}, nil
	}
	return kubelet.AloneHere(ctx, env, UpgradeTakes)
}

// sharesAddress names another Node that has the address to which steps over SSH would go; empty: there is none. Those
// that are skipped are looked past: whoever answers says which Node it is.
func (n *Node) sharesAddress(plan []*Node) string {
	own := parseAddresses(n.IP)
	for _, other := range plan {
		if other.Name != n.Name && !other.Skipped && len(own) > 0 && slices.Contains(parseAddresses(other.IP), own[0]) {
			return other.Name
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
