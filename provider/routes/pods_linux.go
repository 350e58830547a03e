package routes

import (
	"errors"
	"net/netip"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/nodestatus"
)

// connectPods writes what lets pods on this machine have an address and reach what is outside of the cluster.
func (a *Agent) connectPods(now time.Time, self *corev1.Node, nodes []*corev1.Node, intents []Intent) error {
	var own []netip.Prefix
	for _, intent := range intents {
		if intent.Node == a.Node {
			own = append(own, intent.Destination)
		}
	}
	addresses := nodestatus.InternalIPs(self)
	if len(own) == 0 || len(addresses) == 0 {
		return nil // both come, and with an event
	}
	if err := a.masquerade(now, own, clusterAddresses(nodes, intents, a.near)); err != nil {
		return err
	}
	mtu, err := a.Kernel.mtu(addresses[0])
	if err != nil {
		return err
	}
	content, err := cniConfiguration(own, mtu)
	if err != nil {
		return err
	}
	wrote, err := writeCNI(a.CNIDir, content)
	if err != nil {
		a.sayOnce(err.Error())
		return nil // nothing to repeat every second: it is looked at again every minute
	}
	a.said = ""
	if wrote {
		klog.InfoS("Pods of this machine can be connected", "addresses", own, "configuration", cniFile)
	}
	return nil
}

// near reports whether an address of a Node is in a network of this machine, as next hops are. Any other one may be
// another program's, whom a kubelet names as its own, and a Node that has it answers to this machine's address as well.
// What the kernel does not say counts as near.
func (a *Agent) near(n *corev1.Node, address netip.Addr) bool {
	if n.Name == a.Node {
		return true
	}
	_, err := a.Kernel.onLink(address)
	return !errors.Is(err, errNotOnLink)
}

// masquerade writes the table when it has to say something else, and in case somebody has removed it, now and then.
func (a *Agent) masquerade(now time.Time, own, cluster []netip.Prefix) error {
	content := []any{own, cluster}
	if now.Before(a.masqueraded.Add(resyncPeriod)) && reflect.DeepEqual(content, a.masquerades) {
		return nil
	}
	if err := a.Kernel.masquerade(own, cluster); err != nil {
		return err
	}
	a.masqueraded, a.masquerades = now, content
	return nil
}
