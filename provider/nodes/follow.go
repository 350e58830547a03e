package nodes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/inventory"
	"github.com/ccmadm/ccmadm/provider/objects"
)

const (
	// followEvery is how often Nodes are compared; a new inventory does not wait.
	followEvery = 15 * time.Second
)

// follower keeps labels, taints and the condition of maintenance of Nodes as the inventory says. Upstream writes them once,
// when a Node is initialized, and no taints at all.
type follower struct {
	client   kubernetes.Interface
	machines *machines
	nodes    func(context.Context) (cache.Indexer, error)
	warn     func(node *corev1.Node, reason, message string)
	woken    chan struct{}
	patched  patched
}

func newFollower(client kubernetes.Interface, machines *machines, c cluster) *follower {
	return &follower{client: client, machines: machines, nodes: c.nodes, warn: c.warn, woken: make(chan struct{}, 1), patched: patched{versions: map[types.UID]string{}}}
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
		klog.V(2).InfoS("Failed to apply the inventory to Nodes; retrying", "why", err)
		return
	}
	f.machines.prune(nodes)
	for _, node := range objects.List[*corev1.Node](nodes) {
		if ctx.Err() != nil {
			return
		}
		if err := f.follow(ctx, node, nodes); err != nil {
			klog.ErrorS(err, "Failed to apply the inventory to a Node", "node", node.Name)
		}
	}
}

// follow patches a Node that differs. Those that upstream is about to initialize are
// left to it and to prepare; one that it could not is made to differ, so that it
// tries again at once.
func (f *follower) follow(ctx context.Context, node *corev1.Node, nodes cache.Indexer) error {
	if uninitialized(node) && !f.machines.isHeld(node) {
		return nil
	}
	m := f.listed(node, nodes)
	if m == nil {
		return nil
	}
	if f.patched.ahead(node) {
		return nil
	}
	dropped := f.machines.store.Dropped(m.ID)
	if !slices.ContainsFunc(dropped, func(t corev1.Taint) bool { return has(node.Spec.Taints, t) }) {
		f.machines.store.TaintsGone(m.ID)
	}
	if _, forged := followed(node); len(forged) > 0 {
		f.warn(node, finding.ForgedRecord.Kind().Reason, fmt.Sprintf("annotation %s names labels that are not the "+
			"inventory's, which stay: %s",
			v1alpha1.FollowedLabelsAnnotation, strings.Join(forged, ",")))
	}
	patch, withheld := difference(node, m, dropped)
	for _, taint := range withheld {
		f.warn(node, finding.TaintWithheld.Kind().Reason, fmt.Sprintf(
			"taint %s of machine %s would evict running pods: to add it, drain the Node, then kubectl taint nodes %s %s",
			taint.ToString(), m.ID, node.Name, taint.ToString()))
	}
	return errors.Join(f.patch(ctx, node, patch), f.setMaintenance(ctx, node, m))
}

// prepare writes, while a Node still has the taint of an uninitialized one, what
// must not come later: the taints of its machine, before pods that they would
// keep away, and labels, with the note that they are ours. It reports whether it had
// to: then the Node has changed, and upstream asks again.
func (f *follower) prepare(ctx context.Context, node *corev1.Node) (bool, error) {
	nodes, err := f.nodes(ctx)
	if err != nil {
		return false, err
	}
	m := f.listed(node, nodes)
	if m == nil || !uninitialized(node) {
		return false, nil
	}
	patch, _ := difference(node, m, f.machines.store.Dropped(m.ID))
	if patch == nil || patch.Spec.Taints == nil && len(patch.Metadata.Annotations) == 0 {
		return false, nil
	}
	err = f.patch(ctx, node, patch)
	if err != nil && !apierrors.IsConflict(err) { // a conflict means that the Node has changed, too
		return false, finding.NotPrepared.Errorf("prepare Node/%s: %w", node.Name, err)
	}
	return true, nil
}

// listed returns the machine that a Node is, or nil. A Node that is another's, or none, does not follow.
func (f *follower) listed(node *corev1.Node, nodes cache.Indexer) *config.Machine {
	_, _, ours := inventory.Split(node.Spec.ProviderID)
	if node.Spec.ProviderID != "" && !ours || f.machines.store.Status().Inventory == nil {
		return nil
	}
	list, m, err := f.machines.find(node)
	if err == nil && m != nil {
		err = f.machines.take(cmp.Or(node.Spec.ProviderID, inventory.ProviderID(list.Metadata.Site, m.ID)), m, node, nodes)
	}
	if err == nil {
		return m
	}
	var known *finding.Finding
	if errors.As(err, &known) && !uninitialized(node) { // else the controllers meet the same, and tell
		f.warn(node, known.Reason, err.Error())
	}
	return nil
}

func (f *follower) patch(ctx context.Context, node *corev1.Node, patch *nodePatch) error {
	if patch == nil {
		return nil
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	after, err := f.client.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, data,
		metav1.PatchOptions{FieldManager: inventory.Scheme})
	if err == nil {
		f.patched.note(after)
	}
	return err
}

// patched are the resource versions of Nodes as they were written, until the cache has them: a taint that an older copy is without may be
// there.
type patched struct {
	mu       sync.Mutex
	versions map[types.UID]string
}

func (p *patched) note(node *corev1.Node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.versions[node.UID] = node.ResourceVersion
}

// ahead reports whether the Node was written since this copy of it.
func (p *patched) ahead(node *corev1.Node) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	written, ok := p.versions[node.UID]
	if !ok {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(node.ResourceVersion, written)
	if err == nil && order < 0 {
		return true
	}
	delete(p.versions, node.UID)
	return false
}
