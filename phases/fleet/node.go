package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/kubelet"
)

// NodeTimeout is how long a kubelet may take where nothing is said.
const NodeTimeout = time.Minute

// HasScheme tells whether the Node's provider ID begins with the scheme.
func (n *Node) HasScheme(scheme string) bool { return strings.HasPrefix(n.ProviderID, scheme) }

// Node is a node as it was before anything was done, and what stands against changing it.
type Node struct {
	Name         string
	IP           string // the value of --node-ip that keeps its addresses
	ControlPlane bool
	Here         bool // it is this machine
	Skipped      bool
	Ready        bool
	External     bool // its kubelet repeats its --node-ip
	Initialized  bool // by the manager that runs: a provider ID of former days says nothing of its cloud
	Tainted      bool
	Unsure       bool // a run was cut short while it changed the kubelet
	Gone         bool // there is no such Node any more
	Version      string
	ProviderID   string
	Flags        string
	Problems     []string
}

// NewNode is what any run on other machines knows of a Node.
func NewNode(n *corev1.Node, here string, skip []string) *Node {
	controlPlane := nodes.IsControlPlane(n)
	return &Node{
		Name: n.Name, IP: kubelet.NodeIP(n), ControlPlane: controlPlane, Here: n.Name == here,
		Skipped: slices.Contains(skip, n.Name), Ready: nodestatus.IsReady(n),
		Version: finding.Clean(n.Status.NodeInfo.KubeletVersion),
	}
}

// IsExternal goes by the address that a kubelet in external mode repeats on its Node, and takes away when it leaves it.
func IsExternal(n *corev1.Node) bool { return n.Annotations[v1alpha1.ProvidedNodeIPAnnotation] != "" }

// LastStates is how the last step of a name has ended, by Node.
func LastStates(runs []journal.Run, name string) map[string]journal.State {
	last := map[string]journal.State{}
	for _, run := range runs {
		for _, step := range run.Steps {
			if step.Name == name {
				last[step.Node] = step.State
			}
		}
	}
	return last
}

// PodsOfSteps are those that runs have left. What a kubelet shows as its own is none.
func PodsOfSteps(ctx context.Context, client kubernetes.Interface, prefix string) ([]corev1.Pod, error) {
	return podsOfSteps(ctx, client, prefix, "")
}

// podsOfSteps are those that runs have left on the Node. The API server leaves out the others: there may be a thousand.
func (n *Node) podsOfSteps(ctx context.Context, client kubernetes.Interface, prefix string) ([]corev1.Pod, error) {
	pods, err := podsOfSteps(ctx, client, prefix, fields.OneTermEqualSelector("spec.nodeName", n.Name).String())
	return slices.DeleteFunc(pods, func(p corev1.Pod) bool { return !n.Runs(p) }), err
}

func podsOfSteps(ctx context.Context, client kubernetes.Interface, prefix, where string) ([]corev1.Pod, error) {
	selector := metav1.FormatLabelSelector(&metav1.LabelSelector{
		MatchLabels: map[string]string{v1alpha1.ManagedByLabel: v1alpha1.FieldManager},
	})
	var list *corev1.PodList
	err := journal.Ask(ctx, func(ctx context.Context) (err error) {
		list, err = client.CoreV1().Pods(v1alpha1.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector, FieldSelector: where})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for pods of a run that was cut short: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { // those of the node agent are its DaemonSet's
		return nodes.IsMirror(&p) || len(p.OwnerReferences) > 0 || !strings.HasPrefix(p.Name, prefix)
	}), nil
}

// Runs tells whether a pod is on the Node.
func (n *Node) Runs(p corev1.Pod) bool { return p.Spec.NodeName == n.Name }

// PlanLine is a node of a plan, as -o json has it.
type PlanLine struct {
	Node       string `json:"node"`
	Role       string `json:"role"`
	Kubelet    string `json:"kubelet"`
	Address    string `json:"address"`
	ProviderID string `json:"providerID,omitempty"`
	// Flags are the kubelet's: "none", or "not told".
	Flags    string   `json:"flags"`
	ToDo     string   `json:"toDo"`
	Problems []string `json:"problems,omitempty"`
}

// Line is the Node as a line of the plan.
func (n *Node) Line() PlanLine {
	l := PlanLine{
		Node: n.Name, Role: "worker", Kubelet: n.Version, Address: n.IP, ProviderID: finding.Clean(n.ProviderID),
		Flags: n.Flags, ToDo: "kubelet, initialize", Problems: n.Problems,
	}
	if n.ControlPlane {
		l.Role = "control plane"
	}
	switch {
	case n.Skipped:
		l.ToDo = "skipped"
	case len(n.Problems) > 0:
		l.ToDo = "cannot: " + strings.Join(n.Problems, "; ")
	case n.External && n.Initialized:
		l.ToDo = "nothing"
	case n.Initialized:
		l.ToDo = "kubelet"
	case n.External:
		l.ToDo = "initialize"
	}
	return l
}
