package provider

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/provider/inventory"
)

const (
	// annotationMachine names the listed machine that a Node is.
	annotationMachine = "ccmadm.dev/machine"
	// annotationLabels lists the labels that follow the inventory.
	annotationLabels = "ccmadm.dev/inventory-labels"
	// labelRack is the rack of a machine.
	labelRack = "ccmadm.dev/rack"

	// followEvery is how often Nodes are compared; a new inventory does not wait.
	followEvery = 15 * time.Second
)

// follower keeps labels of Nodes as the inventory says. Upstream writes them once,
// when a Node is initialised.
type follower struct {
	client   kubernetes.Interface
	machines *machines
	nodes    func(context.Context) (cache.Indexer, error)
	woken    chan struct{}
}

func newFollower(machines *machines, nodes func(context.Context) (cache.Indexer, error)) *follower {
	return &follower{machines: machines, nodes: nodes, woken: make(chan struct{}, 1)}
}

// wake asks for a comparison now.
func (f *follower) wake() {
	select {
	case f.woken <- struct{}{}:
	default: // somebody did already
	}
}

// run compares until ctx is done.
func (f *follower) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.woken:
		case <-time.After(followEvery):
		}
		f.followAll(ctx)
	}
}

func (f *follower) followAll(ctx context.Context) {
	nodes, err := f.nodes(ctx)
	if err != nil {
		klog.V(2).InfoS("Nodes do not follow the inventory yet", "why", err)
		return
	}
	for _, object := range nodes.List() {
		node, ok := object.(*corev1.Node)
		if !ok || ctx.Err() != nil {
			continue
		}
		if err := f.follow(ctx, node); err != nil {
			klog.ErrorS(err, "Node does not follow the inventory", "node", node.Name)
		}
	}
}

// follow patches a Node that differs. For one that still has the taint of an
// uninitialised Node, the patch also makes upstream try again at once.
func (f *follower) follow(ctx context.Context, node *corev1.Node) error {
	if _, _, ours := inventory.Split(node.Spec.ProviderID); node.Spec.ProviderID != "" && !ours {
		return nil
	}
	if f.machines.store.Status().Inventory == nil {
		return nil
	}
	_, m, err := f.machines.find(node)
	if err != nil || m == nil {
		return nil //nolint:nilerr // the controllers meet the same, and tell
	}
	patch := difference(node, m, f.machines.handedTo(node))
	if patch == nil {
		return nil
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = f.client.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{FieldManager: Name})
	if err == nil && !uninitialised(node) {
		f.machines.settle(node)
	}
	return err
}

// nodePatch is a strategic merge patch: null removes a label.
type nodePatch struct {
	Metadata struct {
		UID         types.UID          `json:"uid"` // so that it fails on the next Node of this name
		Labels      map[string]*string `json:"labels,omitempty"`
		Annotations map[string]string  `json:"annotations,omitempty"`
	} `json:"metadata"`
	Spec struct {
		Taints []corev1.Taint `json:"taints,omitempty"`
	} `json:"spec,omitzero"`
}

// difference returns what makes the Node as its machine is listed, or nil. The
// labels that upstream was handed for it are ours.
func difference(node *corev1.Node, m *inventory.Machine, handed map[string]string) *nodePatch {
	p := &nodePatch{}
	p.Metadata.UID = node.UID
	p.Metadata.Annotations = map[string]string{}
	p.Metadata.Labels = map[string]*string{}
	if node.Annotations[annotationMachine] != m.ID {
		p.Metadata.Annotations[annotationMachine] = m.ID
		p.Spec.Taints = newTaints(node, m)
	}
	if !uninitialised(node) {
		for key, value := range placeLabels(m) {
			if value != "" && node.Labels[key] != value {
				p.Metadata.Labels[key] = &value
			}
		}
		ours := ownLabels(node, machineLabels(m), handed, p.Metadata.Labels)
		if node.Annotations[annotationLabels] != ours {
			p.Metadata.Annotations[annotationLabels] = ours
		}
	}
	if len(p.Metadata.Annotations)+len(p.Metadata.Labels) == 0 {
		return nil
	}
	return p
}

// ownLabels adds the changes of a machine's labels to the patch, and returns the
// keys that are ours from then on. What somebody else set stays theirs.
func ownLabels(node *corev1.Node, want, handed map[string]string, patch map[string]*string) string {
	before := strings.FieldsFunc(node.Annotations[annotationLabels], func(r rune) bool { return r == ',' })
	for key, value := range handed {
		if node.Labels[key] == value && !slices.Contains(before, key) {
			before = append(before, key)
		}
	}
	var ours []string
	for key, value := range want {
		is, there := node.Labels[key]
		if there && is != value && !slices.Contains(before, key) {
			continue
		}
		ours = append(ours, key)
		if is != value || !there {
			patch[key] = &value
		}
	}
	for _, key := range before {
		if _, there := node.Labels[key]; there && want[key] == "" && !slices.Contains(ours, key) {
			patch[key] = nil
		}
	}
	slices.Sort(ours)
	return strings.Join(ours, ",")
}

// newTaints are those of a machine that its Node lacks.
func newTaints(node *corev1.Node, m *inventory.Machine) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(m.Taints), func(t corev1.Taint) bool {
		return slices.ContainsFunc(node.Spec.Taints, func(has corev1.Taint) bool { return has.Key == t.Key })
	})
}

// placeLabels are the well-known labels, the old names too: the node controller
// copies those over the new ones.
func placeLabels(m *inventory.Machine) map[string]string {
	return map[string]string{
		corev1.LabelTopologyRegion: m.Region, corev1.LabelFailureDomainBetaRegion: m.Region,
		corev1.LabelTopologyZone: m.Zone, corev1.LabelFailureDomainBetaZone: m.Zone,
		corev1.LabelInstanceTypeStable: m.InstanceType, corev1.LabelInstanceType: m.InstanceType,
	}
}

// machineLabels are all others.
func machineLabels(m *inventory.Machine) map[string]string {
	labels := maps.Clone(m.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	if m.Rack != "" {
		labels[labelRack] = m.Rack
	}
	return labels
}

func uninitialised(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, isUninitialisedTaint)
}

func isUninitialisedTaint(t corev1.Taint) bool {
	return t.Key == cloudproviderapi.TaintExternalCloudProvider
}
