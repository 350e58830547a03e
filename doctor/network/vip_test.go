package network

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

func vipPod(node string, ready corev1.ConditionStatus, args ...string) corev1.Pod {
	p := corev1.Pod{Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
		Args: append([]string{"vip", "--vip=192.0.2.10"}, args...),
	}}}}
	p.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(now.Add(-3 * time.Minute))},
	}
	return p
}

func vipAgent(node string, age time.Duration, r v1alpha1.VIPReport) v1alpha1.NodeAgent {
	a := agent(node)
	a.Status.RenewTime, a.Status.ControlPlaneVIP = metav1.NewMicroTime(now.Add(-age)), &r
	return a
}

// Who has the control plane's address, and what a line says of it: agents report, the newest is right where reports differ,
// and where nobody reports nothing is made up.
func TestVIP(t *testing.T) {
	votes := []string{"cp1", "cp2", "cp3"}
	pods := []corev1.Pod{vipPod("cp1", "True"), vipPod("cp2", "True"), vipPod("cp3", "True")}
	nodes := []corev1.Node{node("cp1"), node("cp2"), node("cp3")}
	has := v1alpha1.VIPReport{Has: true, Owner: "cp1", Message: "a majority of 3 votes grants it", Votes: votes}
	knows := v1alpha1.VIPReport{Owner: "cp1", Message: "cp1 has it", Votes: votes}
	taken := v1alpha1.VIPReport{Has: true, Owner: "cp2", Message: "a majority of 3 votes grants it", Votes: votes, Unheard: []string{"cp1"}}
	lost := v1alpha1.VIPReport{Message: "no majority: 2 of 3 votes are missing: cp1, cp2", Votes: votes, Unheard: []string{"cp1", "cp2"}}
	for _, tt := range []struct {
		name    string
		pods    []corev1.Pod
		agents  []v1alpha1.NodeAgent
		summary string
		why     string // of the members
	}{
		{
			"at rest", pods,
			[]v1alpha1.NodeAgent{vipAgent("cp1", time.Second, has), vipAgent("cp2", 2*time.Second, knows)},
			"192.0.2.10: cp1 has it",
			"cp1 has vote ready a majority of 3 votes grants it|cp2 vote ready cp1 has it|cp3 vote ready no agent reports from here",
		},
		{
			"its power was cut", pods,
			[]v1alpha1.NodeAgent{vipAgent("cp1", 30*time.Second, has), vipAgent("cp2", time.Second, taken)},
			"192.0.2.10: cp2 has it; 1 of 3 votes are missing: cp1",
			"cp1 vote ready it had the address 30s ago; cp2 reports that cp2 has it; its vote is missing|" +
				"cp2 has vote ready a majority of 3 votes grants it|cp3 vote ready no agent reports from here",
		},
		{
			"long ago", pods,
			[]v1alpha1.NodeAgent{vipAgent("cp1", 2*time.Minute, has), vipAgent("cp2", time.Second, taken)},
			"192.0.2.10: cp2 has it; 1 of 3 votes are missing: cp1",
			"cp1 vote ready no agent reports from here; its vote is missing|cp2 has vote ready a majority of 3 votes grants it|" +
				"cp3 vote ready no agent reports from here",
		},
		{
			"two pods are dead",
			[]corev1.Pod{vipPod("cp1", "False"), vipPod("cp3", "True")},
			[]v1alpha1.NodeAgent{vipAgent("cp3", 0, lost)},
			"192.0.2.10: no control plane has it; 2 of 3 votes are missing: cp1, cp2",
			"cp1 vote not ready for 3m0s no agent reports from here; its vote is missing|" +
				"cp2 vote none no agent reports from here; its vote is missing|cp3 vote ready no majority: 2 of 3 votes are missing: cp1, cp2",
		},
		{
			"no agents", pods, nil, "192.0.2.10: no agent reports who has it",
			"cp1 ready no agent reports from here|cp2 ready no agent reports from here|cp3 ready no agent reports from here",
		},
		{
			"by BGP",
			[]corev1.Pod{vipPod("cp1", "True", "--bgp={}"), vipPod("cp2", "True", "--bgp={}"), vipPod("cp3", "True", "--bgp={}")},
			[]v1alpha1.NodeAgent{
				vipAgent("cp1", 0, v1alpha1.VIPReport{Has: true, Message: "it announces the address"}),
				vipAgent("cp2", 0, v1alpha1.VIPReport{Has: true, Message: "it announces the address"}),
				vipAgent("cp3", 0, v1alpha1.VIPReport{Message: "no router has the address"}),
			},
			"192.0.2.10: announced by cp1, cp2",
			"cp1 has ready it announces the address|cp2 has ready it announces the address|cp3 ready no router has the address",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := newVIP(tt.pods, nodes, reports{now: now, agents: tt.agents})
			if diff := cmp.Diff("control plane's address "+tt.summary, v.Summary()); diff != "" {
				t.Errorf("summary (-want +got):\n%s", diff)
			}
			var rows []string
			for _, m := range v.Members {
				row := m.Node
				if m.Has {
					row += " has"
				}
				if m.Votes {
					row += " vote"
				}
				rows = append(rows, row+" "+m.Pod+" "+m.Because)
			}
			if diff := cmp.Diff(strings.Split(tt.why, "|"), rows); diff != "" {
				t.Errorf("members (-want +got):\n%s", diff)
			}
		})
	}
	if v := newVIP(nil, nodes, reports{now: now}); v != nil {
		t.Errorf("a cluster without such an address has %+v", v)
	}
}

// A kernel that answers for the address, whichever Node has it, is a cause of its own. What an agent said long ago is none.
func TestWhy_KernelAnswers(t *testing.T) {
	for _, live := range []bool{true, false} {
		s := shop()
		s.Agents[2].Status.KernelAnswers = []v1alpha1.KernelAnswer{{Address: "192.0.2.50", On: "kube-ipvs0", Interface: "eth0"}}
		if !live {
			s.Agents[2].Status.RenewTime = metav1.NewMicroTime(now.Add(-time.Hour))
		}
		found := false
		for _, f := range s.Why("shop/web").Findings {
			found = found || f.ID == finding.ProxyBinds && f.Object == "Node/w2" && strings.Contains(f.Message, "on kube-ipvs0")
		}
		if found != live {
			t.Errorf("live %t: found %t", live, found)
		}
	}
}
