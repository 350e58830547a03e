package balancer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// readyCondition is that of AddressPools and BGPPeers.
const readyCondition = "Ready"

// overlapReason is that of a pool without some of its addresses, and of the Event on the Node that has them.
const overlapReason = "Overlap"

// countEvery is how often the numbers of a pool are written: a burst of Services changes them in each pass.
const countEvery = time.Second

// count writes the status of pools and peers where it differs, by what live agents report. It returns when numbers are to be written that
// were not yet.
func (b *Balancer) count(ctx context.Context, s *allocator.Snapshot, p *allocator.Plan, agents []*v1alpha1.NodeAgent) (time.Time, error) {
	var errs []error
	var wake time.Time
	there := map[types.UID]bool{}
	for _, pool := range s.Pools {
		there[pool.UID] = true
		status := poolStatus(pool, p, s.Pools, b.ipam.Trouble(pool.Name), s.Now)
		b.prefixes.set(status, pool.AddressPool, s.Now)
		if equality.Semantic.DeepEqual(status, &pool.Status) {
			continue
		}
		since := s.Now.Sub(b.counted[pool.UID])
		if onlyNumbers(&pool.Status, status) && since >= 0 && since < countEvery {
			wake = sooner(wake, s.Now.Add(countEvery-since), s.Now)
			continue
		}
		written, err := writeStatus(ctx, b, b.Objects.AddressPools, pool.AddressPool, patchedStatus{status, status.DynamicPrefix})
		if err != nil {
			errs = append(errs, fmt.Errorf("patch status of AddressPool/%s: %w", pool.Name, err))
		}
		if written {
			b.counted[pool.UID] = s.Now
			b.nameOverlaps(pool)
		}
	}
	maps.DeleteFunc(b.counted, func(uid types.UID, _ time.Time) bool { return !there[uid] })
	for _, peer := range objects.List[*v1alpha1.BGPPeer](b.caches.peers.GetStore()) {
		status := peerStatus(peer, agents, s.Now)
		if equality.Semantic.DeepEqual(status, &peer.Status) {
			continue
		}
		if _, err := writeStatus(ctx, b, b.Objects.BGPPeers, peer, status); err != nil {
			errs = append(errs, fmt.Errorf("patch status of BGPPeer/%s: %w", peer.Name, err))
		}
	}
	return wake, errors.Join(errs...)
}

// patchedStatus names the prefix also where there is none any more: a merge patch leaves alone what it does not name.
type patchedStatus struct {
	*v1alpha1.AddressPoolStatus `json:",inline"`

	DynamicPrefix *v1alpha1.PoolPrefix `json:"dynamicPrefix"`
}

// onlyNumbers reports whether nothing but numbers of addresses differs.
func onlyNumbers(before, after *v1alpha1.AddressPoolStatus) bool {
	same := before.DeepCopy()
	same.Assigned, same.Quarantined, same.Available = after.Assigned, after.Quarantined, after.Available
	return equality.Semantic.DeepEqual(same, after)
}

// patcher is a client of one kind of ours.
type patcher[T any] interface {
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string) (T, error)
}

// writeStatus writes the status of an object as the cache has it. One that has changed since, or was deleted and made
// again under the same name, keeps its own: another pass looks at it.
func writeStatus[T metav1.Object](ctx context.Context, b *Balancer, client patcher[T], seen T, status any) (written bool, err error) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": seen.GetResourceVersion()}, "status": status,
	})
	if err != nil {
		return false, err
	}
	_, err = client.Patch(ctx, seen.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	switch {
	case apierrors.IsConflict(err):
		b.changed()
		return false, nil
	case apierrors.IsNotFound(err): // the caches will say so
		return false, nil
	}
	return err == nil, err
}

// nameOverlaps writes an Event on each Node that the pool's condition names, and did not name before.
func (b *Balancer) nameOverlaps(p *allocator.Pool) {
	said := ""
	if c := meta.FindStatusCondition(p.Status.Conditions, readyCondition); c != nil {
		said = c.Message
	}
	for _, o := range p.Overlaps[:min(len(p.Overlaps), allocator.NamedErrors)] {
		if o.Node != nil && !strings.Contains(said, o.Text) {
			b.Recorder.Eventf(o.Node, corev1.EventTypeWarning, overlapReason, "AddressPool/%s has this Node's addresses: %s", p.Name, o.Text)
		}
	}
}

// poolStatus counts. An address that another pool has, too, is counted once.
// Trouble is why its IPAM fails.
func poolStatus(
	p *allocator.Pool, plan *allocator.Plan, pools []*allocator.Pool, trouble string, now time.Time,
) *v1alpha1.AddressPoolStatus {
	status := p.Status.DeepCopy()
	status.Assigned, status.Quarantined, status.ObservedGeneration = 0, 0, p.Generation
	left := new(big.Int)
	for _, r := range p.Free.Ranges() {
		left.Add(left, allocator.Size(r))
	}
	for address, c := range plan.Claims {
		switch {
		case allocator.PoolOf(pools, address) != p:
			continue
		case c.Live():
			status.Assigned++
		default:
			status.Quarantined++
		}
		if p.Free.Contains(address) {
			left.Sub(left, big.NewInt(1))
		}
	}
	ready := metav1.Condition{
		Type: readyCondition, Status: metav1.ConditionTrue, Reason: "Gives", Message: "the pool assigns addresses",
		ObservedGeneration: p.Generation, LastTransitionTime: metav1.NewTime(now),
	}
	lacks := p.LacksPrefix()
	switch {
	case p.Problem != nil:
		left.SetInt64(0)
		ready.Status, ready.Reason = metav1.ConditionFalse, finding.PoolNotReady.Kind().Reason
		ready.Message = p.Problem.Error()
	case p.Spec.Disabled:
		left.SetInt64(0)
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "Disabled", "assigned addresses stay"
	case lacks != nil && len(p.Set.Ranges()) == 0:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, finding.PoolNotReady.Kind().Reason, lacks.Error()
	case len(p.Overlaps) > 0:
		ready.Reason, ready.Message = overlapReason, "not given: "+p.Except()
	}
	if lacks != nil && ready.Status == metav1.ConditionTrue {
		ready.Message += "; of spec.dynamicPrefix none: " + lacks.Error()
	}
	status.Available = left.String()
	meta.SetStatusCondition(&status.Conditions, ready)
	setIPAM(status, p, trouble, now)
	return status
}

// ipamCondition is that of AddressPools with an IPAM: False while it cannot be asked.
const ipamCondition = "IPAM"

func setIPAM(status *v1alpha1.AddressPoolStatus, p *allocator.Pool, trouble string, now time.Time) {
	c := metav1.Condition{
		Type: ipamCondition, Status: metav1.ConditionTrue, Reason: "Answers", Message: "no call has failed for a minute",
		ObservedGeneration: p.Generation, LastTransitionTime: metav1.NewTime(now),
	}
	if trouble != "" {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, finding.IPAMPending.Kind().Reason, "the IPAM "+trouble
	}
	if p.Spec.IPAM == nil {
		meta.RemoveStatusCondition(&status.Conditions, ipamCondition)
	} else {
		meta.SetStatusCondition(&status.Conditions, c)
	}
}

// peerStatus is what agents that live report of a peer.
func peerStatus(peer *v1alpha1.BGPPeer, agents []*v1alpha1.NodeAgent, now time.Time) *v1alpha1.BGPPeerStatus {
	status := peer.Status.DeepCopy()
	status.Nodes, status.Established = 0, 0
	ready := metav1.Condition{
		Type: readyCondition, Status: metav1.ConditionTrue, Reason: "Established", Message: "every Node has a session",
		ObservedGeneration: peer.Generation, LastTransitionTime: metav1.NewTime(now),
	}
	down, warning := "", "" // what is wrong with a session, and what there is to say of one that works
	for _, agent := range agents {
		for _, session := range agent.Status.Sessions {
			if session.Peer != peer.Name {
				continue
			}
			status.Nodes++
			text := fmt.Sprintf("Node/%s: %s: %s", agent.Name, session.State, session.Message)
			switch {
			case session.State != "Established":
				down = smaller(down, text)
				continue
			case session.Message != "":
				warning = smaller(warning, text)
			}
			status.Established++
		}
	}
	switch {
	case status.Nodes == 0:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "NoAgent", "no node agent reports a session"
	case down != "":
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, finding.PeerDown.Kind().Reason, down
	case warning != "":
		ready.Message = warning
	}
	meta.SetStatusCondition(&status.Conditions, ready)
	return status
}

// smaller keeps what is said from changing with the order of agents.
func smaller(a, b string) string {
	if a == "" || b < a {
		return b
	}
	return a
}
