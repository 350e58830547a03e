package announce

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce/quorum"
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
	v.SetMembers(now, true, Sightings{})
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
	if again.SetMembers(now, true, Sightings{}); !slices.Contains(again.Members, "dead") {
		t.Errorf("it reports again, and has no vote: %v", again.Members)
	}
	want := map[string]bool{"off": true, "deleted": true}
	if diff := cmp.Diff(want, v.GoneOf([]string{"off", "deleted", "cp1"})); diff != "" {
		t.Errorf("gone (-want +got):\n%s", diff)
	}
}

// When a Node is silent does not depend on whether the agent's clock and the API's agree.
func TestView_SetMembers_Clocks(t *testing.T) {
	for _, off := range []time.Duration{0, time.Hour, -time.Hour} {
		t.Run(off.String(), func(t *testing.T) {
			start := time.Now()
			unready := Sightings{}
			v := View{Nodes: map[string]*corev1.Node{}, Agents: map[string]*v1alpha1.NodeAgent{}}
			say := func(name string, status corev1.ConditionStatus, since time.Duration) {
				v.Nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
				v.Nodes[name].Status.Conditions = []corev1.NodeCondition{
					{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(start.Add(off + since))},
				}
				v.Agents[name] = &v1alpha1.NodeAgent{Status: v1alpha1.NodeAgentStatus{RenewTime: metav1.NowMicro()}}
			}
			silent := func(after time.Duration, want ...string) {
				t.Helper()
				now := View{Nodes: v.Nodes, Agents: v.Agents}
				now.SetMembers(start.Add(after), true, unready)
				if diff := cmp.Diff(want, now.Silent); diff != "" {
					t.Errorf("after %s (-want +got):\n%s", after, diff)
				}
			}
			say("a", corev1.ConditionTrue, -time.Hour)
			silent(0)
			say("a", corev1.ConditionUnknown, 0)
			silent(time.Second)
			silent(40 * time.Second)
			silent(42*time.Second, "a")
			say("a", corev1.ConditionTrue, 50*time.Second)
			silent(50 * time.Second)
			say("a", corev1.ConditionFalse, time.Minute)
			silent(time.Minute)
			say("a", corev1.ConditionUnknown, 90*time.Second) // another word, from which it counts anew
			silent(2 * time.Minute)
			silent(161*time.Second, "a")
			say("off", corev1.ConditionUnknown, -24*time.Hour) // it is so when the agent learns of the Node
			silent(162*time.Second, "a", "off")
		})
	}
}

// Who is silent and of an earlier release may own addresses by a list that nobody reports.
func TestView_SetBound(t *testing.T) {
	for _, tt := range []struct {
		silent []v1alpha1.VoterList
		want   [][]string
	}{
		{nil, [][]string{{"a", "b", "c"}, {"a", "b"}}},
		{quorum.Report("c", [][]string{{"a", "b", "c"}}), [][]string{{"a", "b"}}},
	} {
		agents := make([]v1alpha1.NodeAgent, 3)
		for i, name := range []string{"a", "b", "c"} {
			agents[i].Name = name
			agents[i].Status.Voters = quorum.Report(name, [][]string{{"a", "b"}})
		}
		agents[2].Status.Voters = tt.silent
		v := View{Node: "d", Silent: []string{"c"}, All: []string{"a", "b", "c"}}
		v.SetBound(agents)
		if diff := cmp.Diff(tt.want, v.Bound); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}
