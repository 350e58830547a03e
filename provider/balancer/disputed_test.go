package balancer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// lies is what a kubelet may write into the status of its Node: every address from the first to the last.
func lies(name string, first, last int) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for i := first; i <= last; i++ {
		address := fmt.Sprintf("::ffff:192.0.2.%d", i) // written so that nobody who compares texts notices
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: address})
	}
	return n
}

// counts writes the status of pools, as a pass does.
func (w *world) counts() {
	s := w.snapshot()
	p := allocate(s)
	for _, read := range s.pools {
		read.Status = *read.count(p, w.now) // w has the same object
	}
}

// A pool that gives goes on, whatever kubelets say of their Nodes. Nobody new gets an address that a Node calls its
// own, and no Node can have more than a few.
func TestAllocate_Disputed(t *testing.T) {
	w := newWorld(addressPool("lan", "192.0.2.20-192.0.2.39"))
	first := w.add("first", annotated(v1alpha1.AddressesAnnotation, "192.0.2.20"))
	w.pass()
	w.counts()
	w.nodes = []*corev1.Node{lies("liar", 1, 254)}
	w.nodes[0].Spec.PodCIDRs = []string{"192.0.2.0/24"}
	if got := w.pass().of(first); got != "192.0.2.20" {
		t.Errorf("who has an address of the pool has %q now", got)
	}
	w.counts()
	ready := meta.FindStatusCondition(w.pools[0].Status.Conditions, readyCondition)
	goesOn := ready.Status == metav1.ConditionTrue && ready.Reason == v1alpha1.PoolDisputedReason
	if !goesOn || !strings.Contains(ready.Message, "Node/liar") {
		t.Errorf("the pool's condition is %s %s: %s", ready.Status, ready.Reason, ready.Message)
	}
	if got := w.pools[0].Status.Available; got != "12" { // of 20: one is given, and 7 of the Node's 8 are others
		t.Errorf("%s addresses are left", got)
	}
	asks := w.add("asks", annotated(v1alpha1.AddressesAnnotation, "192.0.2.21"))
	if p := w.pass(); p.reason(asks) != "AddressInUse" || p.of(asks) != "" {
		t.Errorf("who asks for an address of the Node gets %q: %s", p.of(asks), p.reason(asks))
	}
	for i := range 12 {
		s := w.add(fmt.Sprint("more", i))
		if got := w.pass().of(s); got == "" {
			t.Errorf("Service %d gets nothing", i)
		}
	}
}

// A pool that has never given anything is refused, since who makes it can mend it. One that gives stays as it is when
// its ranges are edited, when it was disabled, and when the claims are lost.
func TestAllocate_DisputedFirst(t *testing.T) {
	w := newWorld(addressPool("lan", "192.0.2.20-192.0.2.39"))
	w.nodes = []*corev1.Node{lies("n1", 25, 25)}
	w.counts()
	ready := func() *metav1.Condition {
		return meta.FindStatusCondition(w.pools[0].Status.Conditions, readyCondition)
	}
	if ready().Reason != "PoolNotReady" || ready().Message != "192.0.2.25 is the ExternalIP of Node/n1" {
		t.Errorf("a new pool with the address of a Node is %s: %s", ready().Reason, ready().Message)
	}
	w.pools[0].Spec.Exclude = []string{"192.0.2.25"}
	w.pools[0].Spec.Disabled = true
	w.counts()
	w.pools[0].Spec.Disabled, w.pools[0].Generation = false, 2
	w.nodes = []*corev1.Node{lies("n1", 30, 33)}
	w.counts()
	if ready().Reason != v1alpha1.PoolDisputedReason {
		t.Errorf("an edited pool is %s: %s", ready().Reason, ready().Message)
	}
	w.nodes = nil
	s := w.add("web", annotated(v1alpha1.AddressesAnnotation, "192.0.2.31"))
	w.pass()
	w.nodes = []*corev1.Node{lies("n1", 30, 33)}
	delete(s.Annotations, v1alpha1.AddressesAnnotation)
	loses(w, s)
	w.now = w.now.Add(time.Hour)
	if got := w.pass().of(s); got != "192.0.2.31" {
		t.Errorf("where the claims are lost, the Service has %q", got)
	}
}
