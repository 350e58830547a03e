package phases

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// refuseChosen finds a kubelet that has another address without our --node-ip than with it.
func (a *adopter) refuseChosen(ctx context.Context, n *plannedNode) error {
	node, err := a.client.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("ask for Node/%s: %w", n.name, err)
	}
	if now := internalIPs(node); now != n.ip {
		return finding.Errorf("its kubelet has chosen the addresses %q, and had %q by ccmadm's --node-ip", now, n.ip).
			WithHint("`ccmadm node external --node-ip=%s` there brings them back, and --node-ip in /etc/default/kubelet "+
				"keeps them", n.ip)
	}
	return nil
}

// hasLeft asks a kubelet that repeats no address of its own: one that has left repeats none, and one in external mode
// without --node-ip neither. Where it does not tell, the step is done, which changes nothing on a machine that has
// left; whoever does steps by hand cannot be seen to have done this one.
func (a *adopter) hasLeft(ctx context.Context, n *plannedNode) (bool, error) {
	switch flags := nodes.KubeletFlags(ctx, a.client, n.name); {
	case flags != nil && flags["cloud-provider"] != "external":
		a.d.Sayf("%s: its kubelet is not in external mode: it has left already", n.name)
		return true, nil
	case !a.byHand():
		return false, nil
	case flags != nil:
		return false, finding.Errorf("its kubelet runs with --cloud-provider=external, and without --node-ip").
			WithHint("on %s, as root: ccmadm node plain", n.name)
	}
	a.d.Sayf("warning, %s: whether its kubelet has left is not known, since it repeats no node IP and tells no flags; "+
		"on %s, as root: ccmadm node plain (which changes nothing where it has)", n.name, n.name)
	return true, nil
}
