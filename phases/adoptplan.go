package phases

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/machine"
)

// plannedNode is a node as it was before anything was done, and what stands against changing it.
type plannedNode struct {
	name         string
	ip           string // the value of --node-ip that keeps its addresses
	controlPlane bool
	here         bool // it is this machine
	skipped      bool
	ready        bool
	external     bool // its kubelet repeats its --node-ip
	initialized  bool // by the manager that runs: a provider ID of former days says nothing of its cloud
	tainted      bool
	unsure       bool // a run was cut short while it changed the kubelet
	gone         bool // there is no such Node any more
	version      string
	providerID   string
	flags        string
	problems     []string
}

// plannedNodes are all nodes, in the order in which they are changed: workers first, control planes after, this machine
// last. A worker that goes wrong costs least, and this machine drives the rest.
func plannedNodes(ctx context.Context, d *Data) ([]*plannedNode, error) {
	return adoptionOf(d).plan.get(func() ([]*plannedNode, error) {
		client, err := connect(d, machine.AdminConf)
		if err != nil {
			return nil, err
		}
		list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, finding.Refusedf("list nodes: %w", err).WithHint("nothing was changed")
		}
		here, err := nodeName(d)
		if err != nil {
			return nil, err
		}
		s, err := d.Settings(ctx)
		if err != nil {
			return nil, err
		}
		var plan []*plannedNode
		for i := range list.Items {
			n := &list.Items[i]
			planned := newPlannedNode(n, here, adoptionOf(d).Skip)
			planned.external, planned.tainted, planned.providerID = isExternal(n), nodes.IsTainted(n), n.Spec.ProviderID
			planned.initialized = isInitialized(n) && (!awaitsLifecycle(s) || adoptionOf(d).Leave)
			if !planned.ready {
				planned.problems = append(planned.problems, "it is not Ready")
			}
			plan = append(plan, planned)
		}
		slices.SortFunc(plan, func(a, b *plannedNode) int {
			rank := func(n *plannedNode) int {
				switch {
				case n.here:
					return 2
				case n.controlPlane:
					return 1
				}
				return 0
			}
			return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.name, b.name))
		})
		return plan, nil
	})
}

// newPlannedNode is what any run on other machines knows of a Node.
func newPlannedNode(n *corev1.Node, here string, skip []string) *plannedNode {
	controlPlane := nodes.IsControlPlane(n)
	return &plannedNode{
		name: n.Name, ip: internalIPs(n), controlPlane: controlPlane, here: n.Name == here,
		skipped: slices.Contains(skip, n.Name), ready: nodes.IsReady(n),
		version: finding.Clean(n.Status.NodeInfo.KubeletVersion),
	}
}

// isExternal goes by the address that a kubelet in external mode repeats on its Node, and takes away when it leaves it.
func isExternal(n *corev1.Node) bool { return n.Annotations[v1alpha1.ProvidedNodeIPAnnotation] != "" }

// awaitsLifecycle tells whether a run is to give the permission to delete Nodes: then each is initialized in this very
// run, though it has a provider ID. What a cloud does not know is not initialized, and would be deleted.
func awaitsLifecycle(s *Settings) bool {
	return s.Lifecycle != v1alpha1.LifecycleOff &&
		(s.Recorded == nil || s.changesProvider() || s.Recorded.Configuration.Lifecycle == v1alpha1.LifecycleOff)
}

func isInitialized(n *corev1.Node) bool { return n.Spec.ProviderID != "" && !nodes.IsTainted(n) }

func adoptPreflight() Phase {
	return Phase{
		Name:    "preflight",
		Journal: JournalNever,
		Short:   "Check every node and show what would be done, and ask",
		Long: `Reads the cluster's record or, where there is none, kubeadm's configuration; the profile, credentials, Nodes,
the pods and the Lease of other cloud-controller-managers, webhooks, requests for certificates, and the kubelets' flags.
Writes nothing.`,
		Run: func(ctx context.Context, d *Data) error {
			err := runChecks(ctx, d, []Check{
				{finding.CheckPrivileged, checkRoot},
				{finding.CheckClusterRecord, checkAdoptable}, // which the settings need
				{finding.CheckProvider, checkProvider},
				{finding.CheckWritable, checkWritable},
				{finding.CheckCloudConfig, checkCloudConfig},
				{finding.CheckManifests, checkManifests},
			})
			if err != nil {
				return err
			}
			s, err := d.Settings(ctx)
			if err != nil {
				return err
			}
			if err := refuseOtherManagers(ctx, d, s); err != nil {
				return err
			}
			if err := refusePools(ctx, d, s); err != nil {
				return err
			}
			if err := refuseAdmission(ctx, d); err != nil {
				return err
			}
			plan, err := plannedNodes(ctx, d)
			if err != nil {
				return err
			}
			if err := adoptionOf(d).check(plan); err != nil {
				return err
			}
			if err := examine(ctx, d, s, plan); err != nil {
				return err
			}
			if err := showPlan(d, plan); err != nil {
				return err
			}
			if err := refusePlan(plan, "them as they are, and the lifecycle off until they have followed"); err != nil {
				return err
			}
			err = confirm(d, fmt.Sprintf("Set these nodes to external cloud mode, with provider %s as a %s?", s.Provider,
				s.Mode))
			if err != nil {
				return err
			}
			return beginAdoption(ctx, d, Adopt()[1:], plan)
		},
	}
}

// refusePlan names what stands against nodes. Left is what --skip would leave.
func refusePlan(plan []*plannedNode, left string) error {
	var wrong []error
	var names []string
	for _, n := range plan {
		if len(n.problems) > 0 && !n.skipped {
			wrong = append(wrong, fmt.Errorf("%s: %s", n.name, strings.Join(n.problems, "; ")))
			names = append(names, n.name)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return finding.Refusedf("%w", errors.Join(wrong...)).
		WithHint("--skip %s leaves %s; nothing was changed", strings.Join(names, ","), left)
}
