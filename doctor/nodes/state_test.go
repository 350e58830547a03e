package nodes

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// newNode returns a node as an initialized one is, and then changes it.
func newNode(name string, changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}}
	n.Spec.ProviderID = "onprem://default/" + name
	n.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "198.18.0.11"},
		{Type: corev1.NodeHostName, Address: name},
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, change := range changes {
		change(n)
	}
	return n
}

func tainted(n *corev1.Node) {
	n.Spec.Taints = append(
		n.Spec.Taints,
		corev1.Taint{Key: v1alpha1.UninitializedTaint, Value: "true", Effect: corev1.TaintEffectNoSchedule},
	)
}

func unresolved(n *corev1.Node) { n.Spec.ProviderID = "" }

func unaddressed(n *corev1.Node) { n.Status.Addresses = n.Status.Addresses[1:] }

func notReadyYet(n *corev1.Node) {
	n.Status.Conditions[0].Status = corev1.ConditionFalse
	n.Status.Conditions[0].Message = "container runtime network not ready: cni plugin not initialized"
}

func newLease(holder string, renewed time.Time) *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.LeaseName, Namespace: v1alpha1.Namespace}}
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = &holder, new(int32(15))
	l.Spec.RenewTime = &metav1.MicroTime{Time: renewed}
	return l
}

// TestStatuses_Virtual: a Node that is no machine has no way into external cloud mode, unless it is asked for.
func TestStatuses_Virtual(t *testing.T) {
	byTaint := newNode("aci", unresolved, func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "virtual-kubelet.io/provider", Value: "azure", Effect: corev1.TaintEffectNoSchedule}}
	})
	byLabel := newNode("fargate", unresolved, func(n *corev1.Node) { n.Labels = map[string]string{"type": "virtual-kubelet"} })
	f := &Facts{Nodes: []corev1.Node{*newNode("w1"), *byTaint, *byLabel}}
	for want, names := range map[string][]string{"w1": nil, "aci": {"aci"}} {
		if got := f.Statuses(names); len(got) != 1 || got[0].Node != want {
			t.Errorf("of %q: got %+v", names, got)
		}
	}
}

func TestStatusOf(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	const held, nobody = true, false
	tests := []struct {
		name string
		node *corev1.Node
		led  bool
		want State
	}{
		{"no node", nil, held, Absent},
		{"neither taint nor provider ID", newNode("w1", unresolved), held, Registered},
		{"tainted, nobody leads", newNode("w1", unresolved, tainted), nobody, Tainted},
		{"tainted, somebody leads", newNode("w1", unresolved, tainted), held, Claimed},
		{"a taint of another effect and value", newNode("w1", unresolved, func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: v1alpha1.UninitializedTaint, Effect: corev1.TaintEffectNoExecute}}
		}), nobody, Tainted},
		{"another taint", newNode("w1", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "node.kubernetes.io/not-ready", Effect: corev1.TaintEffectNoSchedule}}
		}), held, Ready},
		{"tainted with a provider ID", newNode("w1", tainted), held, Resolved},
		{"no internal IP", newNode("w1", unaddressed), held, Initialized},
		{"ready without internal IP", newNode("w1", unaddressed), nobody, Initialized},
		{"not ready", newNode("w1", notReadyYet), held, Addressed},
		{"no condition yet", newNode("w1", func(n *corev1.Node) { n.Status.Conditions = nil }), held, Addressed},
		{"ready", newNode("w1"), nobody, Ready},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := StatusOf("w1", tt.node, tt.led, now).State; got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestStatusOf_Details(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	node := newNode("w1", func(n *corev1.Node) {
		n.Labels = map[string]string{corev1.LabelTopologyZone: "rack1"}
		n.Status.NodeInfo.KubeletVersion = "v1.36.3"
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "fd00::11"})
	})
	data, err := json.Marshal(StatusOf("w1", node, false, now))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"time":"2026-11-21T10:00:00Z","node":"w1","state":"Ready","providerID":"onprem://default/w1","internalIPs":["198.18.0.11","fd00::11"],"zone":"rack1","version":"v1.36.3"}`
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
	var back Status
	if err := json.Unmarshal(data, &back); err != nil || back.State != Ready {
		t.Errorf("read back: %v, %v", back, err)
	}
}

func TestParseState(t *testing.T) {
	for _, name := range StateNames() {
		if s, err := ParseState(name); err != nil || s.String() != name {
			t.Errorf("ParseState(%q) = %s, %v", name, s, err)
		}
	}
	if s, err := ParseState("ready"); err != nil || s != Ready {
		t.Errorf("ParseState(ready) = %s, %v", s, err)
	}
	if _, err := ParseState("Gone"); err == nil {
		t.Error("ParseState accepts a state that there is not")
	}
}
