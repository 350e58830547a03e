package adoption

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
	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func adoptNodes() workflow.Phase {
	return workflow.Phase{
		Name:    "nodes",
		Journal: workflow.JournalItself,
		Short:   "Set one kubelet after the other to external cloud mode, and have each node initialized",
		Long: `Reads and writes Nodes. On each machine, workers first and this one last: "ccmadm node external" with the
address that the Node has; then the taint ` + v1alpha1.UninitializedTaint + `, which makes the
cloud-controller-manager initialize the Node and keeps no pod from running; then it waits until the Node is
initialized and Ready, with the addresses that it had. It stops at the first node that fails.`,
		Plan: planNodes,
		Run: func(ctx context.Context, r *workflow.Run) error {
			return adoptionOf(r).eachNode(ctx, r, (*adopter).adopt)
		},
	}
}

func planNodes(ctx context.Context, r *workflow.Run) (string, error) {
	a := adoptionOf(r)
	plan, err := a.plannedNodes(ctx, r)
	if err != nil {
		return "", err
	}
	var lines []string
	for _, n := range plan {
		switch {
		case n.Skipped:
		case a.Leave:
			lines = append(lines, fmt.Sprintf("would run on %s: ccmadm node plain", n.Name))
		case !n.External:
			lines = append(lines, fmt.Sprintf("would run on %s: ccmadm node external --node-ip=%s", n.Name, n.IP))
		}
		if !n.Skipped && !a.Leave && !n.Initialized {
			lines = append(lines, fmt.Sprintf("would have %s initialized", n.Name))
		}
	}
	return strings.Join(append(lines, finding.Count(len(plan), "node")+" looked at"), "\n"), nil
}

// What the journal says of a kubelet.
const (
	flagExternal = "--cloud-provider=external"
	noFlags      = "no such flags of ours"
)

// adopter changes nodes.
type adopter struct {
	r      *workflow.Run
	op     *Adoption
	s      *settings.Settings
	client kubernetes.Interface
	step   fleet.Runner
}

// eachNode changes all nodes in the order of the plan.
func (a *Adoption) eachNode(ctx context.Context, r *workflow.Run, change func(*adopter, context.Context, *fleet.Node) error) error {
	by, err := a.newAdopter(ctx, r)
	if err != nil {
		return err
	}
	plan, err := a.plannedNodes(ctx, r)
	if err != nil {
		return err
	}
	return by.each(ctx, plan, func(ctx context.Context, n *fleet.Node) error { return change(by, ctx, n) })
}

func (a *Adoption) newAdopter(ctx context.Context, r *workflow.Run) (*adopter, error) {
	s, err := r.Settings(ctx)
	if err != nil {
		return nil, err
	}
	client, err := workflow.Connect(r.Env, machine.AdminConf)
	if err != nil {
		return nil, err
	}
	if a.Parallel > 1 { // no table is redrawn in place then, either
		r = r.Together()
	}
	return &adopter{r: r, op: a, s: s, client: client, step: fleet.NewRunner(r.Env, client, a.Remote, a.NodeTimeout)}, nil
}

// adopt brings one node through. Each part is left out where it is done already.
func (a *adopter) adopt(ctx context.Context, n *fleet.Node) error {
	if err := a.look(ctx, n); err != nil {
		return err
	}
	if n.External && n.Initialized && !n.Here && !n.Unsure {
		a.r.Sayf("%s: in external mode and initialized already", n.Name)
		return nil
	}
	if n.Here || !n.External || n.Unsure {
		step := journal.Step{
			Name: kubeletStep, Node: n.Name, What: "Set the kubelet to external cloud mode",
			Before: n.Flags, After: flagExternal + " --node-ip=" + n.IP, Undo: "ccmadm node plain on " + n.Name,
		}
		if err := a.nodeStep(ctx, n, step, a.external); err != nil {
			return err
		}
	}
	if n.Initialized || n.Gone {
		return nil
	}
	step := journal.Step{
		Name: initializeStep, Node: n.Name, What: "Have the cloud-controller-manager initialize the Node",
		After: "taint " + v1alpha1.UninitializedTaint + ", for as long as it takes",
		Undo:  "the provider ID stays; kubectl taint node " + n.Name + " " + v1alpha1.UninitializedTaint + "-",
	}
	return a.nodeStep(ctx, n, step, a.initialize)
}

// external sets the kubelet's flags, and waits until the Node repeats its address.
func (a *adopter) external(ctx context.Context, n *fleet.Node) error {
	if err := a.step.Run(ctx, n, fleet.External{NodeIP: n.IP}); err != nil {
		return err
	}
	return a.await(ctx, n, "its kubelet to be in external mode", func(node *corev1.Node) bool {
		return node.Annotations[v1alpha1.ProvidedNodeIPAnnotation] == n.IP && nodestatus.IsReady(node)
	})
}

// initialize taints the Node and waits. Where nobody takes the taint away in time, it is taken back: the node takes
// pods as before, and the next run sets it again.
func (a *adopter) initialize(ctx context.Context, n *fleet.Node) error {
	if err := kubelet.Taint(ctx, a.client, n.Name, true); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.s.Wait.Timeout.Duration)
	defer cancel()
	wanted := nodes.WaitOptions{Nodes: []string{n.Name}, Until: nodes.Ready, Lease: a.s.Profile.LeaseName()}
	err := workflow.Wait(ctx, a.client, wanted, nodes.NewDisplay(a.r.Output, a.r.Out))
	if err == nil {
		_, err := a.unmoved(ctx, n)
		return err
	}
	if n.Tainted {
		return err // no pod came here before, and none does now
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if undone := kubelet.Taint(last, a.client, n.Name, false); undone != nil {
		n.Tainted = true
		return errors.Join(err, undone)
	}
	return err
}

// look sees whether a Node has come further than when the plan was made: another run may have ended since.
func (a *adopter) look(ctx context.Context, n *fleet.Node) error {
	node, err := a.unmoved(ctx, n)
	if err != nil {
		return err
	}
	n.External, n.Initialized = fleet.IsExternal(node), n.Initialized && workflow.IsInitialized(node)
	return nil
}

// unmoved returns the Node, and refuses one that has other addresses than when the run began: the
// cloud-controller-manager knows others.
func (a *adopter) unmoved(ctx context.Context, n *fleet.Node) (*corev1.Node, error) {
	node, err := workflow.AskNode(ctx, a.client, n.Name)
	if err != nil {
		return nil, fmt.Errorf("ask for Node/%s: %w", n.Name, err)
	}
	if now := kubelet.NodeIP(node); now != n.IP {
		return nil, finding.Errorf("its addresses were %[2]q and are now %[1]q: the provider reports others", now, n.IP).
			WithHint("correct the machine's addresses in the cloud or in the cloud configuration, and run the same command again")
	}
	return node, nil
}

// await watches one Node. An API server that does not answer is asked again.
func (a *adopter) await(ctx context.Context, n *fleet.Node, what string, holds func(*corev1.Node) bool) error {
	patience := a.step.Patience()
	waiting := a.r.Waiting("Node/"+n.Name+": "+what, patience)
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, patience, true,
		func(ctx context.Context) (bool, error) {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			node, err := a.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return false, err
			}
			if err != nil || !holds(node) {
				waiting.Still(err)
				return false, nil
			}
			return true, nil
		})
	if err != nil {
		return &finding.Error{
			Code: finding.ExitNotInTime, Err: fmt.Errorf("wait %s for %s: %w", patience, what, err),
			Hint: fmt.Sprintf("on %s: ccmadm node show; journalctl -u kubelet", n.Name),
		}
	}
	return nil
}

func (a *adopter) byHand() bool { return a.op.ByHand() }
