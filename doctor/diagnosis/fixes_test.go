package diagnosis

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// A command that is shown is one that somebody copies: a real shell must see the words that were meant.
func TestFix_CommandIsQuoted(t *testing.T) {
	for _, name := range []string{"w1", "a b", "$(touch /tmp/x)", "`id`", "x;reboot", "it's", "-rf", "a\nb", hostile, `"`, "\\", "*", "!!", "#"} {
		f := Fix{Patch: &Patch{Kind: "node", Name: name, Type: "application/json-patch+json", Data: []byte(`[{"op":"x' y"}]`)}}
		out, err := exec.CommandContext(t.Context(), "sh", "-c", `kubectl() { printf '%s\n' "$@"; }; `+f.Command()).Output()
		if err != nil {
			t.Fatal(err)
		}
		clean := strings.NewReplacer("\n", " ", "\x1b[2J", "", "\x1b]0;owned\a", "", "\u202e", "", "\r", " ").Replace(name)
		if want := "patch\nnode/" + clean + "\n--type=json\n-p\n[{\"op\":\"x' y\"}]\n"; string(out) != want {
			t.Errorf("%q: %s\nthe shell sees %q, want %q", name, f.Command(), out, want)
		}
	}
}

func TestFixes(t *testing.T) {
	unit := func(active, file string) func(*Snapshot) {
		return func(s *Snapshot) { s.Host.Unit = &HostUnit{Load: "loaded", Active: active, File: file} }
	}
	differs := func(name, wanted string) func(*Snapshot) {
		return func(s *Snapshot) {
			s.Host.Unit = &HostUnit{Load: "loaded", Active: "active", File: "enabled", PID: 7}
			s.Host.Flags = []HostFlag{{Name: name, Places: []HostPlace{{File: "f", Value: wanted}}}}
		}
	}
	tests := []struct {
		name    string
		changes []func(*Snapshot)
		want    string
	}{
		{"nothing is wrong", nil, ""},
		{"a toleration", []func(*Snapshot){tainted, leaderless, unplaced(tolerates(v1alpha1.ControlPlaneLabel))}, "B1 Deployment/kube-system/ccm"},
		{"a rule's warning is no proof", []func(*Snapshot){tainted, leaderless}, ""},
		{"a taint that stays", []func(*Snapshot){func(s *Snapshot) {
			s.Nodes[1].Spec.Taints = []corev1.Taint{{Key: v1alpha1.ShutdownTaint}}
		}}, "N2 Node/w1"},
		{"the kubelet was stopped", []func(*Snapshot){unit("inactive", "disabled")}, "K1 Node/cp1,K3 Node/cp1"},
		{"the kubelet starts again and again", []func(*Snapshot){unit("activating", "enabled")}, ""},
		{"the kubelet is masked", []func(*Snapshot){unit("inactive", "masked")}, ""},
		{"a flag of external mode is not in effect", []func(*Snapshot){differs("cloud-provider", "external")}, "K2 Node/cp1"},
		{"a flag that would keep the kubelet from starting", []func(*Snapshot){differs("cloud-provider", "aws")}, ""},
		{"a flag that nobody here knows", []func(*Snapshot){differs("v", "4")}, ""},
		{"somebody has changed the unit", []func(*Snapshot){differs("cloud-provider", "external"), func(s *Snapshot) {
			s.Host.Unit.Stale = true
		}}, ""},
		{"an address of another machine", []func(*Snapshot){differs("node-ip", "192.0.2.99")}, ""},
		{"an address of this machine", []func(*Snapshot){differs("node-ip", "192.0.2.1")}, "K2 Node/cp1"},
		{"routes off", []func(*Snapshot){args("--configure-cloud-routes=false"), func(s *Snapshot) {
			s.Nodes[2].Status.Conditions = append(s.Nodes[2].Status.Conditions, corev1.NodeCondition{
				Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue, Reason: "NoRouteCreated", LastTransitionTime: ago(time.Hour),
			})
		}}, "F3 Node/w2"},
		{"routes on", []func(*Snapshot){args("--configure-cloud-routes=true"), func(s *Snapshot) {
			s.Nodes[2].Status.Conditions = append(s.Nodes[2].Status.Conditions, corev1.NodeCondition{
				Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue, Reason: "NoRouteCreated", LastTransitionTime: ago(time.Hour),
			})
		}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSnapshot(templates.Deployment, 2)
			s.Host = &Host{Name: "cp1", Node: "cp1", Addresses: []string{"192.0.2.1"}}
			for _, change := range tt.changes {
				change(s)
			}
			var got []string
			for _, f := range Diagnose(s).Fixes(s, nil) {
				got = append(got, string(f.ID)+" "+f.Object)
			}
			slices.Sort(got)
			if strings.Join(got, ",") != tt.want {
				t.Errorf("got %v, want %s", got, tt.want)
			}
		})
	}
}

// A patch that adds a list replaces one that another patch has just added.
func TestFixes_OnePatchAWorkload(t *testing.T) {
	s := newSnapshot(templates.Deployment, 2, tainted, leaderless, unplaced())
	for i := range s.Nodes {
		s.Nodes[i].Spec.Taints = append(s.Nodes[i].Spec.Taints,
			corev1.Taint{Key: v1alpha1.ControlPlaneLabel, Effect: corev1.TaintEffectNoSchedule},
			corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
	}
	found := Diagnose(s)
	var patches []string
	for _, f := range found.Fixes(s, nil) {
		if f.Patch != nil {
			patches = append(patches, string(f.Patch.Data))
		}
	}
	if len(patches) != 1 || strings.Count(patches[0], `"key":`) != 3 {
		t.Errorf("got %q", patches)
	}
	for _, c := range found.Findings() {
		if (c.ID == "B1" || c.ID == "B2" || c.ID == "B3") && strings.Count(c.Next, `"key":`) != 3 {
			t.Errorf("%s: one after the other leaves the last: %s", c.ID, c.Next)
		}
	}
	gone := newSnapshot(templates.Deployment, 2)
	for i := range gone.Nodes[1:] {
		gone.Nodes[i+1].Spec.Taints = []corev1.Taint{{Key: v1alpha1.ShutdownTaint}}
	}
	if fixes := Diagnose(gone).Fixes(gone, []string{"w1"}); len(fixes) != 1 || fixes[0].Object != "Node/w1" {
		t.Errorf("of w1 alone: %v", fixes)
	}
}

// What is wrong with a file of one machine explains its own Node, and the manager's only where it is the manager's.
func TestCovers_Machine(t *testing.T) {
	about := func(object, message string) *Cause {
		return &Cause{Finding: finding.Finding{Object: object, Message: message}, Objects: []string{object}}
	}
	admin := about("Machine/cp1", "/etc/kubernetes/admin.conf has ended")
	for object, want := range map[string]bool{"Node/cp1": true, "Node/w7": false, "Deployment/kube-system/ccm": false} {
		if got := covers(admin, about(object, "")); got != want {
			t.Errorf("%s: %v", object, got)
		}
	}
	if !covers(about("Machine/cp1", "/etc/kubernetes/cloud-controller-manager.conf has ended"), about("Deployment/kube-system/ccm", "")) {
		t.Error("the manager's own file explains nothing of it")
	}
}

func TestChanges(t *testing.T) {
	healthy, broken := Diagnose(newSnapshot(templates.Deployment, 2)), Diagnose(newSnapshot(templates.Deployment, 2, tainted, leaderless, waiting("ImagePullBackOff", hostile)))
	one := Diagnose(newSnapshot(templates.Deployment, 2, func(s *Snapshot) { s.Heartbeats[1].Spec.RenewTime.Time = taken.Add(-time.Hour) }))
	two := Diagnose(newSnapshot(templates.Deployment, 2, func(s *Snapshot) {
		s.Heartbeats[1].Spec.RenewTime.Time, s.Heartbeats[2].Spec.RenewTime.Time = taken.Add(-time.Hour), taken.Add(-time.Hour)
	}))
	blind := Diagnose(newSnapshot(templates.Deployment, 2, without(partValidating)))
	for name, tt := range map[string]struct {
		before, after *Diagnosis
		want          string
	}{
		"the first look":       {nil, healthy, healthy.Summary},
		"nothing has changed":  {one, one, ""},
		"one more Node has it": {one, two, "+ error W14 Kubelet stopped posting status: Node/w2|    next: " + two.Causes[0].Next},
		"one Node less":        {two, one, "- error W14 Kubelet stopped posting status: Node/w2"},
		"all is well again":    {one, healthy, "- error W14 Kubelet stopped posting status: Node/w1|nothing is wrong"},
		"less is seen":         {healthy, blind, "not seen: " + partValidating},
		"it is seen no more": {one, Diagnose(newSnapshot(templates.Deployment, 2, without(partHeartbeats))), "? not found any more, with less seen: " +
			"error W14 Kubelet stopped posting status: Node/w1|not seen: " + partHeartbeats + "|nothing is wrong in what was seen"},
		"all is seen again": {blind, healthy, "seen again: " + partValidating},
	} {
		if got := strings.Join(tt.after.Changes(tt.before), "|"); got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, tt.want)
		}
	}
	if text := strings.Join(broken.Changes(healthy), "\n"); bytes.ContainsAny([]byte(text), "\x1b\a\r") || !strings.Contains(text, "+ error W25 ") {
		t.Errorf("got %q", text)
	}
}
