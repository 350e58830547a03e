package adoption

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/kubelet"
)

// examineLeaving finds the flags for which `ccmadm node plain` would be refused, where it is told in which file they
// stand: on this machine, and over SSH. Another machine says it when its turn comes.
func examineLeaving(m *machine.Machine, plan []*fleet.Node, reports []*kubelet.NodeReport) error {
	for i, n := range plan {
		var err error
		switch {
		case n.Skipped:
		case n.Here:
			err = refusePlainHere(m)
		case reports[i] != nil:
			err = reports[i].RefusePlain()
		}
		var known *finding.Error
		if errors.As(err, &known) {
			hint := strings.TrimSuffix(known.Hint, "; nothing was changed")
			n.Problems = append(n.Problems, fmt.Sprintf("%v: %s", err, hint))
		} else if err != nil {
			return err
		}
	}
	return nil
}

func refusePlainHere(m *machine.Machine) error {
	uses, err := m.KubeletFlags("cloud-provider", "node-ip")
	if err != nil {
		return err
	}
	if err := kubelet.RefuseTwice(uses); err != nil {
		return err
	}
	modes := slices.DeleteFunc(uses, func(u machine.FlagUse) bool { return u.Flag != "cloud-provider" })
	return kubelet.RefuseAdministrators(m, modes)
}

// refuseChosen finds a kubelet that has another address without our --node-ip than with it.
func (a *adopter) refuseChosen(ctx context.Context, n *fleet.Node) error {
	node, err := a.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("ask for Node/%s: %w", n.Name, err)
	}
	if now := kubelet.NodeIP(node); now != n.IP {
		return finding.Errorf("its kubelet now reports the addresses %q; with ccmadm's --node-ip it reported %q", now, n.IP).
			WithHint("`ccmadm node external --node-ip=%s` there restores them; to keep them after leave, set --node-ip in "+
				"/etc/default/kubelet", n.IP)
	}
	return nil
}

// hasLeft asks a kubelet that repeats no address of its own: one that has left repeats none, and one in external mode
// without --node-ip neither. Where it does not tell, the step is done, which changes nothing on a machine that has
// left; whoever does steps by hand cannot be seen to have done this one.
func (a *adopter) hasLeft(ctx context.Context, n *fleet.Node) (bool, error) {
	switch flags := nodes.KubeletFlags(ctx, a.client, n.Name); {
	case flags != nil && flags["cloud-provider"] != "external":
		a.r.Sayf("%s: its kubelet is not in external mode: it has left already", n.Name)
		return true, nil
	case !a.byHand():
		return false, nil
	case flags != nil:
		return false, finding.Errorf("its kubelet runs with --cloud-provider=external, and without --node-ip").
			WithHint("on %s, as root, run: ccmadm node plain", n.Name)
	}
	a.r.Sayf("warning, %s: whether its kubelet has left is not known, since it repeats no node IP and tells no flags; "+
		"on %s, as root: ccmadm node plain (which changes nothing where it has)", n.Name, n.Name)
	return true, nil
}
