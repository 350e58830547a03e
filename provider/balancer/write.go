package balancer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
	"github.com/ccmadm/ccmadm/provider/objects"
)

const (
	// writers is how many requests are on their way at once.
	writers = 16
	// catchUp is how long a pass waits until the caches have what it wrote.
	catchUp = 2 * time.Second
)

// write writes claims, then Services, whose addresses must not be published before they are claimed. It returns when
// the caches have what was written: the next pass must not take its own work for another program's. Of Services that are held the
// statuses are then as they were written.
func (b *Balancer) write(
	ctx context.Context, p *allocator.Plan, statuses map[types.NamespacedName]*evaluation.Status, overlap bool, forgotten []*corev1.Service,
) error {
	w := newWritten()
	claims := slices.Concat(slices.Collect(maps.Values(p.Claims)), p.Drop)
	w.each(len(claims), func(i int) error { return b.writeClaim(ctx, p, claims[i], w) })
	o := orderOf(statuses, overlap)
	for _, names := range o.layers {
		w.each(len(names), func(i int) error {
			st := statuses[names[i]]
			if st.Elsewhere {
				return nil
			}
			if held := w.held(o, st); len(held) > 0 {
				st = withHeld(st, held)
				w.keep(names[i], st)
			}
			return b.writeService(ctx, st, w)
		})
	}
	maps.Copy(statuses, w.kept)
	w.each(len(forgotten), func(i int) error {
		return b.writeService(ctx, forget(forgotten[i], p.Records[forgotten[i].UID], b.Now()), w)
	})
	w.wait(ctx)
	if len(w.refused) > 0 {
		klog.ErrorS(few(w.refused), "The API server refuses updates of Services")
	}
	return few(w.errs)
}

// written is what a pass wrote.
type written struct {
	mu   sync.Mutex
	errs []error
	// refused are of Services that are left alone for a while. Others do not wait for them.
	refused []error
	// failed are Services that were not written. Of those withdrawn the status has no address that they lost.
	failed, withdrawn map[types.NamespacedName]bool
	unclaimed         map[family]bool                             // with a claim that was not written
	waits             map[family]bool                             // they were held
	kept              map[types.NamespacedName]*evaluation.Status // of Services that were held
	seen              []func() bool
}

func newWritten() *written {
	return &written{
		failed: map[types.NamespacedName]bool{}, withdrawn: map[types.NamespacedName]bool{}, waits: map[family]bool{},
		unclaimed: map[family]bool{}, kept: map[types.NamespacedName]*evaluation.Status{},
	}
}

// each calls do for every index, several at once.
func (w *written) each(n int, do func(int) error) {
	var running sync.WaitGroup
	for first := range min(writers, n) {
		running.Go(func() {
			for i := first; i < n; i += writers {
				if err := do(i); err != nil {
					w.fail(&w.errs, err)
				}
			}
		})
	}
	running.Wait()
}

// fail adds to one of the lists.
func (w *written) fail(list *[]error, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*list = append(*list, err)
}

// claimLacks notes that a claim of the Service is not as it should be.
func (w *written) claimLacks(of family) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unclaimed[of] = true
}

// lacks notes that a Service is not as it should be. Withdrawn says that what it lost is out of its status all the same.
func (w *written) lacks(name types.NamespacedName, withdrawn bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed[name] = true
	if withdrawn {
		w.withdrawn[name] = true
	}
}

// expect remembers what the caches must have.
func (w *written) expect(seen func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, seen)
}

func (w *written) wait(ctx context.Context) {
	deadline := time.Now().Add(catchUp)
	for len(w.seen) > 0 && time.Now().Before(deadline) && ctx.Err() == nil {
		if last := len(w.seen) - 1; w.seen[last]() {
			w.seen = w.seen[:last]
			continue
		}
		time.Sleep(time.Millisecond)
	}
}

// writeClaim writes a claim that differs from its object. One that is another program's by now holds that family of its
// Services, which get another one in the next pass.
func (b *Balancer) writeClaim(ctx context.Context, p *allocator.Plan, c *allocator.Claim, w *written) error {
	addresses := b.Client.NetworkingV1().IPAddresses()
	object := c.Render()
	var err error
	var after *networkingv1.IPAddress
	verb := "update"
	switch {
	case p.Claims[c.Address] != c:
		verb = "delete"
		err = addresses.Delete(ctx, object.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
			UID: &object.UID, ResourceVersion: &object.ResourceVersion,
		}})
		if apierrors.IsNotFound(err) {
			err = nil
		}
	case c.Object == nil:
		verb = "create"
		after, err = addresses.Create(ctx, object, metav1.CreateOptions{})
	case equality.Semantic.DeepEqual(object.Annotations, c.Object.Annotations):
		return nil
	default:
		after, err = addresses.Update(ctx, object, metav1.UpdateOptions{})
	}
	if err == nil {
		w.expect(func() bool { return b.hasClaim(object, after) })
		return nil
	}
	for _, owner := range c.Concerned() {
		w.claimLacks(family{owner, c.Address.Is6()})
	}
	if apierrors.IsAlreadyExists(err) {
		return b.claimExists(ctx, c, w)
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // the caches will say so, and ask for a pass
		return nil
	}
	return fmt.Errorf("%s IPAddress/%s: %w", verb, object.Name, err)
}

// claimExists finds out whose the object is that has the name of a new claim. Where the watch lags, it may be our own, which a pass or
// another leader has made: the caches will have it. That of another Service, or of another program, keeps the address from ours
// for a while.
func (b *Balancer) claimExists(ctx context.Context, c *allocator.Claim, w *written) error {
	list, err := b.Client.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{ // the manager may not get one
		FieldSelector: "metadata.name=" + c.Address.String(),
	})
	if err != nil {
		return fmt.Errorf("read IPAddress/%s: %w", c.Address, err)
	}
	if len(list.Items) == 0 { // it has gone meanwhile
		b.changed()
		return nil
	}
	object := &list.Items[0]
	if own, is := allocator.ParseClaim(object); is && own.Has(c.Parent) {
		w.expect(func() bool { return b.caches.claims.has(object.ResourceVersion) })
		return nil
	}
	b.mu.Lock()
	b.conflicts[c.Address] = b.Now()
	b.mu.Unlock()
	b.changed()
	return nil
}

// hasClaim reports whether the cache has a claim as it was written, or has it no more if it was deleted.
func (b *Balancer) hasClaim(before, after *networkingv1.IPAddress) bool {
	if after != nil {
		return b.caches.claims.has(after.ResourceVersion)
	}
	object, there, _ := b.caches.claims.GetStore().GetByKey(before.Name)
	return !there || object.(*networkingv1.IPAddress).UID != before.UID
}

// writeService patches metadata and status, as upstream's service controller does, and says what is wrong as an Event.
func (b *Balancer) writeService(ctx context.Context, st *evaluation.Status, w *written) error {
	patch, err := patchOf(st.Service, st.After)
	if err != nil || patch == nil {
		return err
	}
	if b.rests(st.Service) {
		w.lacks(allocator.NameOf(st.After), false)
		return b.withdraw(ctx, st, w)
	}
	after, err := b.Client.CoreV1().Services(st.After.Namespace).Patch(ctx, st.After.Name, types.StrategicMergePatchType,
		patch, metav1.PatchOptions{}, "status")
	b.mu.Lock()
	b.refused.note(b.Now(), st.Service, err)
	b.mu.Unlock()
	if err != nil {
		w.lacks(allocator.NameOf(st.After), false)
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // the caches will say so, and ask for a pass
		return nil
	}
	if err != nil {
		err = fmt.Errorf("patch Service/%s: %w", allocator.NameOf(st.After), err)
		if !objects.Refused(err) {
			return err
		}
		w.fail(&w.refused, err)
		return b.withdraw(ctx, st, w)
	}
	w.expect(func() bool { return b.caches.services.has(after.ResourceVersion) })
	if st.Note != "" {
		b.Recorder.Event(st.Service, corev1.EventTypeNormal, "NothingToReassign", st.Note)
	}
	if st.Followed != "" {
		b.Recorder.Event(st.Service, corev1.EventTypeNormal, "PrefixChanged", st.Followed)
	}
	before, now := allocator.Condition(st.Service), allocator.Condition(st.After)
	switch {
	case now == nil || before != nil && before.Reason == now.Reason && before.Message == now.Message:
	case st.Problem != nil && (st.Problem.ID == finding.NoReadyEndpoint || errors.Is(st.Problem, allocator.ErrUnanswered)):
		// Pods of a new Service are on their way, or its address.
		b.Recorder.Event(st.Service, corev1.EventTypeNormal, now.Reason, finding.Clean(now.Message))
	case st.Problem != nil:
		b.Recorder.Event(st.Service, corev1.EventTypeWarning, now.Reason, finding.Clean(now.Message))
	case st.Mistyped != "" && (before == nil || !strings.HasSuffix(before.Message, st.Mistyped)):
		b.Recorder.Event(st.Service, corev1.EventTypeWarning, "UnknownAnnotation", st.Mistyped)
	case st.NoEgress != "" && (before == nil || !strings.Contains(before.Message, st.NoEgress)):
		b.Recorder.Event(st.Service, corev1.EventTypeWarning, "NoEgress", st.NoEgress)
	case st.Remark != "" && (before == nil || !strings.Contains(before.Message, st.Remark)):
		b.Recorder.Event(st.Service, corev1.EventTypeWarning, "IPAMDiffers", finding.Clean(st.Remark))
	}
	return nil
}

// withdraw takes from the status what is not to be there any more, and writes nothing else. Whoever writes Services can have the
// whole patch refused, by annotations that leave no room for ours, and kube-proxy serves what is in the status, also when
// the address is another Service's by now. So a Service that rests loses its addresses all the same.
func (b *Balancer) withdraw(ctx context.Context, st *evaluation.Status, w *written) error {
	after := st.Service.DeepCopy()
	left := allocator.Earlier(st.After, true)
	after.Status.LoadBalancer.Ingress = slices.DeleteFunc(after.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool {
		address, err := netip.ParseAddr(i.IP)
		return err == nil && !slices.Contains(left, address.Unmap().WithZone(""))
	})
	patch, err := patchOf(st.Service, after)
	if err != nil || patch == nil || b.withdrawalRests(st.Service, patch) {
		return err
	}
	after, err = b.Client.CoreV1().Services(after.Namespace).Patch(ctx, after.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
	switch {
	case err == nil:
		w.expect(func() bool { return b.caches.services.has(after.ResourceVersion) })
		w.lacks(allocator.NameOf(after), true)
		return nil
	case objects.Refused(err):
		b.mu.Lock()
		b.refused.noteWithdrawal(st.Service, patch)
		b.mu.Unlock()
		return nil // the whole patch is tried again
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		return nil
	}
	return fmt.Errorf("withdraw addresses of Service/%s: %w", allocator.NameOf(st.Service), err)
}

// rests reports whether the API server has just refused to have the Service patched.
func (b *Balancer) rests(service *corev1.Service) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused.rests(b.Now(), service)
}

func (b *Balancer) withdrawalRests(service *corev1.Service, patch []byte) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused.withdrawalRests(b.Now(), service, patch)
}

// patchOf returns nil where nothing differs. A Service that has changed meanwhile refuses it.
func patchOf(before, after *corev1.Service) ([]byte, error) {
	if equality.Semantic.DeepEqual(before, after) {
		return nil, nil
	}
	from, to := before.DeepCopy(), after.DeepCopy()
	from.ResourceVersion = "" // so that the patch names the one that was looked at
	texts := [2][]byte{}
	for i, service := range []*corev1.Service{from, to} {
		text, err := json.Marshal(service)
		if err != nil {
			return nil, fmt.Errorf("encode Service/%s: %w", allocator.NameOf(before), err)
		}
		texts[i] = text
	}
	return strategicpatch.CreateTwoWayMergePatch(texts[0], texts[1], corev1.Service{})
}

// held are the families of which a Service keeps what its status has until the next pass, since a claim or a Service before it was not
// written: with kube-proxy the one that loses an address keeps it until the other has it, otherwise the other one waits until it is free.
// Those after one that is held are held as well: in a chain of moves the last one would lose an address that is in no other status yet.
func (w *written) held(o *order, st *evaluation.Status) []bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := allocator.NameOf(st.Service)
	var held []bool
	for _, ipv6 := range []bool{false, true} {
		of := family{name, ipv6}
		waits := slices.ContainsFunc(o.moves[of], func(other types.NamespacedName) bool {
			of := family{other, ipv6}
			return w.waits[of] || w.unclaimed[of] || w.failed[other] && (o.overlap || !w.withdrawn[other])
		})
		if waits || w.failed[name] || w.unclaimed[of] {
			held = append(held, ipv6)
		}
	}
	if len(held) == 1 && isHalf(st, held[0]) {
		held = []bool{false, true}
	}
	for _, ipv6 := range held {
		w.waits[family{name, ipv6}] = true
	}
	return held
}

// keep notes what is written of a Service that is held.
func (w *written) keep(name types.NamespacedName, st *evaluation.Status) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept[name] = st
}
