package balancer

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// A kubelet that changes its Node's condition all the time rewrites no Service; one that stays away loses its addresses after
// [unreadyTime], and the next pass is at that moment.
func TestReadiness(t *testing.T) {
	now, r := start, readiness{}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n1"}}
	look := func(after time.Duration, ready corev1.ConditionStatus) bool {
		now = now.Add(after)
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
		return r.observe(now, allocator.HostsOf([]*corev1.Node{node}, nil))[node.UID]
	}
	if look(0, corev1.ConditionFalse) {
		t.Error("a Node that was never Ready has addresses")
	}
	look(time.Minute, corev1.ConditionTrue)
	for range 100 {
		if !look(20*time.Second, corev1.ConditionFalse) {
			t.Fatal("a Node that was Ready until now has lost its addresses")
		}
		look(time.Second, corev1.ConditionTrue)
	}
	look(time.Hour, corev1.ConditionUnknown)
	if next := r.next(); next != now.Add(unreadyTime) {
		t.Errorf("the next look is at %s, want %s later", next, unreadyTime)
	}
	if look(unreadyTime, corev1.ConditionUnknown) || len(r) > 0 {
		t.Error("a Node that is not Ready keeps its addresses")
	}
	look(time.Second, corev1.ConditionTrue)
	look(time.Second, corev1.ConditionFalse)
	if r.observe(now, nil); len(r) > 0 {
		t.Error("a Node that is deleted is still known")
	}
}

// What takes a Node's addresses at once asks for a pass, also where the Node is not Ready already: the shutdown taint comes after that.
func TestNodeMatters_Leaves(t *testing.T) {
	before := &corev1.Node{}
	after := before.DeepCopy()
	after.Spec.Taints = []corev1.Taint{{Key: v1alpha1.ShutdownTaint}}
	if !nodeMatters(before, after) || nodeMatters(after, after.DeepCopy()) {
		t.Error("a Node that is shut down asks for no pass")
	}
}
