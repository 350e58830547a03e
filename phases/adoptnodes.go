package phases

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/journal"
)

func adoptNodes() Phase {
	return Phase{
		Name:    "nodes",
		Journal: JournalItself,
		Short:   "Set one kubelet after the other to external cloud mode, and have each node initialized",
		Long: `Reads and writes Nodes. On each machine, workers first and this one last: "ccmadm node external" with the
address that the Node has; then the taint ` + v1alpha1.UninitializedTaint + `, which makes the
cloud-controller-manager initialize the Node and keeps no pod from running; then it waits until the Node is
initialized and Ready, with the addresses that it had. It stops at the first node that does not come through.`,
		Foretell: foretellNodes,
		Run:      func(ctx context.Context, d *Data) error { return eachNode(ctx, d, (*adopter).adopt) },
	}
}

func foretellNodes(ctx context.Context, d *Data) (string, error) {
	plan, err := plannedNodes(ctx, d)
	if err != nil {
		return "", err
	}
	var lines []string
	for _, n := range plan {
		switch {
		case n.skipped:
		case adoptionOf(d).Leave:
			lines = append(lines, fmt.Sprintf("would run on %s: ccmadm node plain", n.name))
		case !n.external:
			lines = append(lines, fmt.Sprintf("would run on %s: ccmadm node external --node-ip=%s", n.name, n.ip))
		}
		if !n.skipped && !adoptionOf(d).Leave && !n.initialized {
			lines = append(lines, fmt.Sprintf("would have %s initialized", n.name))
		}
	}
	return strings.Join(append(lines, fmt.Sprintf("%d nodes looked at", len(plan))), "\n"), nil
}

// adopter changes nodes.
type adopter struct {
	d      *Data
	s      *Settings
	client kubernetes.Interface
	step   stepper
}

// eachNode changes all nodes in the order of the plan.
func eachNode(ctx context.Context, d *Data, change func(*adopter, context.Context, *plannedNode) error) error {
	a, err := newAdopter(ctx, d)
	if err != nil {
		return err
	}
	plan, err := plannedNodes(ctx, d)
	if err != nil {
		return err
	}
	return a.each(ctx, plan, func(ctx context.Context, n *plannedNode) error { return change(a, ctx, n) })
}

func newAdopter(ctx context.Context, d *Data) (*adopter, error) {
	s, err := d.Settings(ctx)
	if err != nil {
		return nil, err
	}
	client, err := connect(d, machine.AdminConf)
	if err != nil {
		return nil, err
	}
	if adoptionOf(d).Parallel > 1 { // no table is redrawn in place then, either
		d = d.together()
	}
	return &adopter{d: d, s: s, client: client, step: newStepper(d, client, adoptionOf(d).Remote, adoptionOf(d).NodeTimeout)}, nil
}

// adopt brings one node through. Each part is left out where it is done already.
func (a *adopter) adopt(ctx context.Context, n *plannedNode) error {
	if err := a.look(ctx, n); err != nil {
		return err
	}
	if n.external && n.initialized && !n.here && !n.unsure {
		a.d.Sayf("%s: in external mode and initialized already", n.name)
		return nil
	}
	if n.here || !n.external || n.unsure {
		step := journal.Step{
			Name: kubeletStep, Node: n.name, What: "Set the kubelet to external cloud mode",
			Before: n.flags, After: flagExternal + " --node-ip=" + n.ip, Undo: "ccmadm node plain on " + n.name,
		}
		if err := a.nodeStep(ctx, n, step, a.external); err != nil {
			return err
		}
	}
	if n.initialized || n.gone {
		return nil
	}
	step := journal.Step{
		Name: initializeStep, Node: n.name, What: "Have the cloud-controller-manager initialize the Node",
		After: "taint " + v1alpha1.UninitializedTaint + ", for as long as it takes",
		Undo:  "the provider ID stays; kubectl taint node " + n.name + " " + v1alpha1.UninitializedTaint + "-",
	}
	return a.nodeStep(ctx, n, step, a.initialize)
}

// external sets the kubelet's flags, and waits until the Node repeats its address.
func (a *adopter) external(ctx context.Context, n *plannedNode) error {
	if err := a.step.run(ctx, n, "external", "--node-ip="+n.ip); err != nil {
		return err
	}
	return a.await(ctx, n, "its kubelet to be in external mode", func(node *corev1.Node) bool {
		return node.Annotations[v1alpha1.ProvidedNodeIPAnnotation] == n.ip && nodes.IsReady(node)
	})
}

// initialize taints the Node and waits. Where nobody takes the taint away in time, it is taken back: the node takes
// pods as before, and the next run sets it again.
func (a *adopter) initialize(ctx context.Context, n *plannedNode) error {
	if err := taint(ctx, a.client, n.name, true); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.s.Wait.Timeout.Duration)
	defer cancel()
	wanted := nodes.WaitOptions{Nodes: []string{n.name}, Until: nodes.Ready, Lease: a.s.Profile.LeaseName()}
	err := Wait(ctx, a.client, wanted, nodes.NewDisplay(a.d.Output, a.d.Out))
	if err == nil {
		_, err := a.unmoved(ctx, n)
		return err
	}
	if n.tainted {
		return err // no pod came here before, and none does now
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if undone := taint(last, a.client, n.name, false); undone != nil {
		n.tainted = true
		return errors.Join(err, undone)
	}
	return err
}

// look sees whether a Node has come further than when the plan was made: another run may have ended since.
func (a *adopter) look(ctx context.Context, n *plannedNode) error {
	node, err := a.unmoved(ctx, n)
	if err != nil {
		return err
	}
	n.external, n.initialized = isExternal(node), n.initialized && isInitialized(node)
	return nil
}

// unmoved returns the Node, and refuses one that has other addresses than when the run began: the
// cloud-controller-manager knows others.
func (a *adopter) unmoved(ctx context.Context, n *plannedNode) (*corev1.Node, error) {
	node, err := askNode(ctx, a.client, n.name)
	if err != nil {
		return nil, fmt.Errorf("ask for Node/%s: %w", n.name, err)
	}
	if now := internalIPs(node); now != n.ip {
		return nil, finding.Errorf("its addresses are %q now, and were %q: the provider knows others", now, n.ip).
			WithHint("look at what the provider says of the machine, and at its cloud configuration")
	}
	return node, nil
}

// await watches one Node. An API server that does not answer is asked again.
func (a *adopter) await(ctx context.Context, n *plannedNode, what string, holds func(*corev1.Node) bool) error {
	patience := a.step.patience()
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, patience, true,
		func(ctx context.Context) (bool, error) {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			node, err := a.client.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return false, err
			}
			return err == nil && holds(node), nil
		})
	if err != nil {
		return &finding.Error{
			Code: finding.ExitNotInTime, Err: fmt.Errorf("wait %s for %s: %w", patience, what, err),
			Hint: fmt.Sprintf("on %s: ccmadm node show; journalctl -u kubelet", n.name),
		}
	}
	return nil
}
