package adoption

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/workflow"
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
// without --node-ip neither. Where it does not tell, the step is done, which changes nothing on a machine that has left;
// by hand only where no run before has done it.
func (a *adopter) hasLeft(ctx context.Context, n *fleet.Node) (bool, error) {
	if flags := nodes.KubeletFlags(ctx, a.client, n.Name); flags != nil {
		left := flags["cloud-provider"] != "external"
		if left {
			a.r.Sayf("%s: its kubelet is not in external mode: it has left already", n.Name)
		}
		return left, nil
	}
	if !a.byHand() {
		return false, nil
	}
	runs, err := journal.Read(ctx, a.client)
	if err != nil {
		return false, err
	}
	node, err := workflow.AskNode(ctx, a.client, n.Name)
	if err != nil {
		return false, fmt.Errorf("ask for Node/%s: %w", n.Name, err)
	}
	left := leftBefore(runs, node)
	if left {
		a.r.Sayf("%s: the run before has taken its kubelet out of external mode", n.Name)
	}
	return left, nil
}

// leftBefore tells whether a run of leave that did not come to its end has taken a machine out, and no other run came
// after it. A step that began before the Node was made was on another Node of the name: one that vanishes ends its step, too.
func leftBefore(runs []journal.Run, node *corev1.Node) bool {
	for _, run := range slices.Backward(runs) {
		if directionOf(&run) != journal.CommandLeave || run.State == journal.Done {
			return false
		}
		for _, step := range run.Steps {
			if step.Name == kubeletStep && step.Node == node.Name && step.State == journal.Done {
				return !node.CreationTimestamp.After(step.Began.Time)
			}
		}
	}
	return false
}
