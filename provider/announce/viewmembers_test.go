package announce

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Who has a vote, in which order: one that falls silent keeps its place among all.
func TestView_SetMembers(t *testing.T) {
	now := time.Now()
	v := View{Nodes: map[string]*corev1.Node{}, Agents: map[string]*v1alpha1.NodeAgent{}}
	for name, ready := range map[string]corev1.ConditionStatus{
		"b": corev1.ConditionTrue, "cp1": corev1.ConditionUnknown, "cp2": corev1.ConditionTrue, "a": corev1.ConditionTrue,
		"off": corev1.ConditionFalse, "agentless": corev1.ConditionTrue, "dead": corev1.ConditionTrue,
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
		if name[0] == 'c' {
			node.Labels[v1alpha1.ControlPlaneLabel] = ""
		}
		if name == "off" {
			node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}}
		}
		node.Status.Conditions = []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.NewTime(now.Add(-time.Minute))},
		}
		if v.Nodes[name] = node; name != "agentless" {
			v.Agents[name] = &v1alpha1.NodeAgent{}
		}
	}
	dead := v.Agents["dead"]
	dead.Annotations = map[string]string{v1alpha1.AgentSilentAnnotation: dead.Status.Renewed()}
	v.SetMembers(now, true)
	for what, lists := range map[string][2][]string{
		"members": {{"cp2", "a", "b"}, v.Members},
		"silent":  {{"cp1", "dead"}, v.Silent},
		"all":     {{"cp1", "cp2", "a", "b", "dead"}, v.All},
	} {
		if diff := cmp.Diff(lists[0], lists[1]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	dead.Status.RenewTime = metav1.NowMicro()
	again := View{Nodes: v.Nodes, Agents: v.Agents}
	if again.SetMembers(now, true); !slices.Contains(again.Members, "dead") {
		t.Errorf("it reports again, and has no vote: %v", again.Members)
	}
	want := map[string]bool{"off": true, "deleted": true, "cp1": false}
	if diff := cmp.Diff(want, v.gone([]string{"off", "deleted", "cp1"})); diff != "" {
		t.Errorf("gone (-want +got):\n%s", diff)
	}
}
