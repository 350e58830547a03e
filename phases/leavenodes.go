package phases

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
)

// examineLeaving finds the flags for which `ccmadm node plain` would be refused, where it is told in which file they
// stand: on this machine, and over SSH. Another machine says it when its turn comes.
func examineLeaving(d *Data, plan []*plannedNode, reports []*NodeReport) error {
	for i, n := range plan {
		var err error
		switch {
		case n.skipped:
		case n.here:
			err = refusePlainHere(d.Machine)
		case reports[i] != nil:
			err = reports[i].refusePlain()
		}
		var known *finding.Error
		if errors.As(err, &known) {
			hint := strings.TrimSuffix(known.Hint, "; nothing was changed")
			n.problems = append(n.problems, fmt.Sprintf("%v: %s", err, hint))
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
	if err := refuseTwice(uses); err != nil {
		return err
	}
	modes := slices.DeleteFunc(uses, func(u machine.FlagUse) bool { return u.Flag != "cloud-provider" })
	return refuseAdministrators(m, modes)
}

// refusePlain goes by what a machine says of its files, of which ours goes with the step.
func (r *NodeReport) refusePlain() error {
	for _, f := range r.Flags {
		if f.Name != "cloud-provider" && f.Name != "node-ip" {
			continue
		}
		var places []string
		for _, place := range f.From {
			if place != machine.KubeletEnvFile {
				places = append(places, finding.Clean(place))
			}
		}
		switch {
		case len(places) > 1:
			return finding.Refusedf("%w", setTwice(f.Name, places...)).WithHint("remove one of the two")
		case f.Name != "cloud-provider" || len(places) == 0:
		case !strings.HasPrefix(places[0], machine.KubeadmFlags+":"):
			return isAdministrators(places[0] + ": --cloud-provider=" + finding.Clean(f.Value))
		}
	}
	return nil
}

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
