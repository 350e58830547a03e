package diagnosis

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/templates"
)

// said is a line of the node controller so long ago.
func said(before time.Duration, text string) string {
	return "E" + taken.Add(-before).Format("0102 15:04:05") + ".123456 1 node_controller.go:288] " + text
}

// aboutNodes are the lines of a round about so many Nodes, a second each.
func aboutNodes(count int, before time.Duration, why string) []string {
	var lines []string
	for i := range count {
		lines = append(lines, said(before-time.Duration(i)*time.Second, "Error getting instance metadata for node addresses: "+why))
	}
	return lines
}

// TestDiagnose_UnansweredRounds: a cloud that answers about no Node in two rounds is found while the manager leads and no Node waits; what is wrong
// with one Node, or was for a moment, is not.
func TestDiagnose_UnansweredRounds(t *testing.T) {
	const timeout = `Post "https://vcenter.example.com/sdk": dial tcp 192.0.2.5:443: i/o timeout`
	const own = "unable to find suitable IP address for node"
	round := 5*time.Minute + 10*time.Second
	lines := func(rounds ...[]string) func(*Snapshot) {
		var all []string
		for _, r := range rounds {
			all = append(all, r...)
		}
		return logged(all...)
	}
	both := func(count int, why string) func(*Snapshot) {
		return lines(aboutNodes(count, time.Minute+round, why), aboutNodes(count, time.Minute, why))
	}
	profile := func(image string) func(*Snapshot) {
		return func(s *Snapshot) {
			for _, c := range []*corev1.Container{&s.Pods[0].Spec.Containers[0], &s.Deployments[0].Spec.Template.Spec.Containers[0]} {
				c.Image, c.Args = image, []string{"--cloud-provider=" + onprem}
			}
		}
	}
	for _, tt := range []struct {
		name    string
		changes faults
		want    string
	}{
		{"two rounds, of four Nodes", faults{both(4, timeout)}, "C7(1)"},
		{"credentials, in words of the cloud's own", faults{both(4, "ServerFaultCode: Cannot complete login due to an incorrect user name or password.")}, "C7(1)"},
		{"the second round has begun", faults{lines(
			slices.Repeat([]string{"x"}, nodes.LogLines), aboutNodes(4, time.Minute+round, timeout), aboutNodes(1, time.Minute, timeout),
		)}, "C7(1)"},
		{"the next round is about to begin", faults{lines(aboutNodes(4, 2*round, timeout), aboutNodes(4, round, timeout))}, "C7(1)"},
		{"each question lasts 30 s", faults{func(s *Snapshot) {
			var all []string
			for i := range 24 {
				all = append(all, said(time.Duration(25-i)*30*time.Second, "Error getting instance metadata for node addresses: "+timeout))
			}
			logged(all...)(s)
		}}, "C7(1)"},
		{"a longer round", faults{
			args("--node-status-update-frequency=20m"),
			lines(aboutNodes(4, 35*time.Minute, timeout), aboutNodes(4, 14*time.Minute, timeout)),
		}, "C7(1)"},
		{"a Node waits, too", faults{
			both(3, timeout), func(s *Snapshot) {
				n := &s.Nodes[3]
				n.Spec.ProviderID, n.Spec.Taints = "", []corev1.Taint{{Key: v1alpha1.UninitializedTaint, Effect: corev1.TaintEffectNoSchedule}}
				s.Logs["ccm-x7k2p"] = append(s.Logs["ccm-x7k2p"], said(50*time.Second, "error syncing 'w3': failed to get instance metadata for node w3: EOF"))
			},
		}, "C7(1)>W10(1)"},
		{"a Service waits, too", faults{service("web", time.Hour), both(4, timeout)}, "C7(1)>G1(1)"},
		{"credentials that are known to be rejected", faults{both(4, "AuthFailure: denied")}, "D3(1)"},
		{"a cloud that is a Kubernetes API", faults{both(4, `Get "https://infra.example.com:6443/apis/kubevirt.io/v1/namespaces/tenant/`+
			`virtualmachines/w1": dial tcp 192.0.2.9:6443: i/o timeout`)}, "C7(1)"},
		{"one round", faults{lines(aboutNodes(4, time.Minute, timeout))}, ""},
		{"one of all Nodes, and one Node in the rounds before and since", faults{lines(
			aboutNodes(1, 3*time.Minute+4*round, own), aboutNodes(4, 3*time.Minute+3*round, timeout), aboutNodes(1, 3*time.Minute+2*round, own),
			aboutNodes(1, 3*time.Minute+round, own), aboutNodes(1, 3*time.Minute, own),
		)}, ""},
		{"one of all Nodes, and one Node in the rounds before", faults{lines(
			aboutNodes(1, 3*time.Minute+2*round, own), aboutNodes(1, 3*time.Minute+round, own), aboutNodes(4, 3*time.Minute, timeout),
		)}, ""},
		{"one of all Nodes, and one Node in the round before and in this one", faults{lines(
			aboutNodes(1, time.Minute+2*round, own), aboutNodes(4, time.Minute+round, timeout), aboutNodes(1, time.Minute, own),
		)}, ""},
		{"one of all Nodes after others with answers, and one Node in this one", faults{lines(
			[]string{"I1122 08:40:00.1 1 node_controller.go:1] started"}, aboutNodes(4, time.Minute+round, timeout), aboutNodes(1, time.Minute, own),
		)}, ""},
		{"one of all Nodes when the manager has just been started, and one Node in this one", faults{lines(
			[]string{said(time.Minute+round+5*time.Second, "started")}, aboutNodes(4, time.Minute+round, timeout), aboutNodes(1, time.Minute, own),
		)}, ""},
		{"some Nodes of each round", faults{both(3, timeout)}, ""},
		{"each Node of one round, and the cloud answered in the next", faults{lines(aboutNodes(4, 2*round+time.Minute, timeout), aboutNodes(1, time.Minute, timeout))}, ""},
		{"two rounds, and it answers since", faults{lines(aboutNodes(4, 3*round, timeout), aboutNodes(4, 2*round, timeout))}, ""},
		{"a Node was initialized since", faults{lines(
			aboutNodes(4, 2*time.Minute+round, timeout), aboutNodes(4, 2*time.Minute, timeout),
			[]string{said(time.Minute, "Successfully initialized node w3 with cloud provider")},
		)}, ""},
		{"machines that the cloud does not know", faults{both(4, "instance not found")}, ""},
		{"too many questions", faults{both(4, "googleapi: Error 403: rateLimitExceeded")}, ""},
		{"the API server does not answer", faults{both(4, `Get "https://10.0.0.1:6443/api/v1/nodes/w1": EOF`)}, ""},
		{"the provider onprem, which has no cloud", faults{both(4, "find the machine of Node/w1: there is no inventory: Empty"), profile("x/cloud-controller-manager:v1")}, ""},
		{"no manager is seen, as where the cloud runs it", faults{both(4, timeout), func(s *Snapshot) {
			s.Pods, s.Deployments = nil, nil
		}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := Diagnose(newSnapshot(templates.Deployment, 3, tt.changes...))
			if got := words(d); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			for _, c := range d.Causes {
				if c.ID == finding.CloudUnanswered && (c.Severity != finding.SeverityWarning || !strings.Contains(c.Message, "ccm-x7k2p logs of each Node")) {
					t.Errorf("got %s %s", c.Severity, c.Message)
				}
			}
		})
	}
}

// TestLastOfRounds_Cut: of a big cluster the last lines of a log are those of one round, as far as they go.
func TestLastOfRounds_Cut(t *testing.T) {
	at := func(before time.Duration, count int) []string { // within a second
		return slices.Repeat([]string{said(before, "Error getting instance metadata for node addresses: connection refused")}, count)
	}
	started, other := []string{said(8*time.Minute, "started")}, []string{said(3*time.Minute, "x")}
	for name, tt := range map[string]struct {
		log   []string
		asked int
		want  bool
	}{
		"a thousand Nodes":                     {at(3*time.Minute, nodes.LogLines), mostAsked, true},
		"a thousand Nodes, and half a round":   {slices.Concat(at(6*time.Minute, 140), at(time.Minute, 60)), mostAsked, true},
		"the round before is cut off":          {slices.Concat(at(8*time.Minute, 50), at(3*time.Minute, 150)), mostAsked, true},
		"half of a thousand":                   {slices.Concat(slices.Repeat(other, 120), at(3*time.Minute, 80)), mostAsked, false},
		"150 Nodes, and the log has all of it": {at(3*time.Minute, 150), mostAsked, false},
		"a round with answers before":          {slices.Concat(started, at(3*time.Minute, nodes.LogLines)), mostAsked, false},
		"some Nodes, many times":               {slices.Concat(at(8*time.Minute, 100), at(3*time.Minute, 3)), 4, false},
	} {
		s := newSnapshot(templates.Deployment, 3)
		v := newView(s)
		if got := s.lastOfRounds(v.main(), tt.log, tt.asked) != ""; got != tt.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// TestSymptoms_UntilTheNextRound: what a manager says of its cloud holds until the next round of questions has been answered, and what
// it asks more often for minutes, also where 5 minutes and the time of a question lie between two answers; neither for an hour.
func TestSymptoms_UntilTheNextRound(t *testing.T) {
	const rejected = "Error getting instance metadata for node addresses: AuthFailure: denied"
	const exists = "error checking if node w1 exists: AuthFailure: denied"
	const ensure = "error processing service shop/web (retrying with exponential backoff): failed to ensure load balancer: AuthFailure: denied"
	for _, tt := range []struct {
		line   string
		before time.Duration
		args   []string
		want   string
	}{
		{rejected, 6 * time.Minute, nil, "D3(1)"},
		{rejected, 8 * time.Minute, nil, ""},
		{rejected, 8 * time.Minute, []string{"--node-status-update-frequency=10m"}, "D3(1)"},
		{rejected, 8 * time.Minute, []string{"--node-status-update-frequency=0"}, ""},
		{rejected, 14 * time.Minute, []string{"--node-status-update-frequency=1h"}, "D3(1)"},
		{rejected, 16 * time.Minute, []string{"--node-status-update-frequency=1h"}, ""},
		{exists, 4 * time.Minute, []string{"--node-status-update-frequency=1h"}, "D3(1)"},
		{exists, 8 * time.Minute, []string{"--node-status-update-frequency=1h"}, ""},
		{ensure, 5*time.Minute + 30*time.Second, nil, "D3(1)"},
		{ensure, 8 * time.Minute, []string{"--node-status-update-frequency=1h"}, ""},
	} {
		if got := words(Diagnose(newSnapshot(templates.Deployment, 3, args(tt.args...), logged(said(tt.before, tt.line))))); got != tt.want {
			t.Errorf("%s, %v: got %s, want %s", tt.before, tt.args, got, tt.want)
		}
	}
}
