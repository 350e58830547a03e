package diagnosis

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// single are faults that a cluster may have at the same time as another one, by the ID that each has to be named by.
func single() map[finding.ID][]func(*Snapshot) {
	line := "error syncing 'w1': failed to get instance metadata for node w1: UnauthorizedOperation: 403, requeuing"
	host := func(h Host) func(*Snapshot) {
		return func(s *Snapshot) {
			h.Name, h.Node = "w3", "w3"
			s.Host = &h
		}
	}
	kubelet := &HostUnit{Load: "loaded", Active: "active", PID: 700}
	return map[finding.ID][]func(*Snapshot){
		"B1":  {tainted, leaderless, unplaced(tolerates(v1alpha1.ControlPlaneLabel))},
		"B7":  {webhook(0)},
		"B13": {tainted, leaderless, waiting("CrashLoopBackOff", "back-off"), logged("Error: unknown flag: --port")},
		"D3":  {tainted, logged(line)},
		"D8":  {denied("patch", "", "nodes")},
		"D10": {denied("create", "", "events")},
		"F3":  {unrouted},
		"F6":  {samePods},
		"G2":  {service("web", time.Hour), excluded},
		"H2":  {secondManager},
		"H5":  {kept("old-cp_1f0a", 3*time.Hour, time.Hour), logged("attempting to acquire leader lease")},
		"I2":  {certificateRequests(3)},
		"K1":  {host(Host{Unit: &HostUnit{Load: "loaded", Active: "inactive", Sub: "dead"}})},
		"K7":  {host(Host{Unit: kubelet, Clock: &HostClock{Server: "https://x", Ahead: 900}})},
		"K10": {host(Host{Unit: kubelet, Disks: []HostDisk{{Path: "/var/log", Bytes: 1 << 30, FreeBytes: 1 << 20}}})},
		"M15": {rejected("Malformed: read Inventory: line 1: must be a mapping", time.Minute)},
		"N1":  {func(s *Snapshot) { s.Nodes = s.Nodes[:10] }},
		"N2":  {switchedOff},
		"N3":  {func(s *Snapshot) { delete(s.Nodes[5].Labels, corev1.LabelTopologyZone) }},
		"N5":  {func(s *Snapshot) { s.Nodes[6].Status.NodeInfo.KubeletVersion = "v1.37.0" }},
		"O1":  {func(s *Snapshot) { s.RecordMisread = &Misread{Message: "of v9", Next: "use that ccmadm"} }},
		"W7":  {stale},
		"W14": {func(s *Snapshot) { s.Heartbeats[3].Spec.RenewTime.Time = taken.Add(-2 * time.Minute) }},
		"W18": {flag("w2", "")},
		"W25": {tainted, leaderless, waiting("ImagePullBackOff", "not found")},
	}
}

func unrouted(s *Snapshot) {
	s.Nodes[4].Status.Conditions = append(s.Nodes[4].Status.Conditions, corev1.NodeCondition{
		Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue, Reason: "NoRouteCreated", LastTransitionTime: ago(time.Hour),
	})
}

func samePods(s *Snapshot) {
	s.Nodes[7].Spec.PodCIDRs, s.Nodes[8].Spec.PodCIDRs = []string{"10.244.1.0/24"}, []string{"10.244.1.0/24"}
}

func excluded(s *Snapshot) {
	for i := range s.Nodes {
		s.Nodes[i].Labels[v1alpha1.ExcludeLabel] = ""
	}
}

func switchedOff(s *Snapshot) {
	s.Nodes[2].Spec.Taints = []corev1.Taint{{Key: v1alpha1.ShutdownTaint, Effect: corev1.TaintEffectNoSchedule}}
}

// TestDiagnose_Pairs has two faults at once. Both are named, errors before warnings, a cause above what follows from
// it, and none hides the other.
func TestDiagnose_Pairs(t *testing.T) {
	for pair, want := range map[string]string{
		"B1 B7":   "B7(1) B1(1)>W22(11)",
		"B1 F6":   "B1(1)>W22(11) F6(1)",
		"B1 G2":   "B1(1)>W22(11) G2(1)",
		"B1 N5":   "B1(1)>W22(11) N5(1)",
		"B7 D8":   "B7(1) D8(1)",
		"B7 K1":   "K1(1) B7(1)",
		"B7 W7":   "B7(1) W7(1)",
		"B13 D8":  "B13(1)>W26(11) D8(1)",
		"B13 I2":  "B13(1)>W26(11) I2(3)",
		"B13 W14": "B13(1)>W26(11) W14(1)",
		"D3 F3":   "D3(1)>W9(10)>W10(1) F3(1)",
		"D3 N5":   "D3(1)>W9(10)>W10(1) N5(1)",
		"D3 W14":  "D3(1)>W9(10)>W10(1) W14(1)",
		"D8 G2":   "G2(1) D8(1)",
		"D8 H2":   "H2(1) D8(1)",
		"D8 N2":   "N2(1) D8(1)",
		"D10 N1":  "N1(1) D10(1)",
		"D10 W7":  "W7(1) D10(1)",
		"F3 N2":   "F3(1) N2(1)",
		"F3 W7":   "W7(1) F3(1)",
		"F6 N5":   "F6(1) N5(1)",
		"G2 N1":   "N1(1) G2(1)",
		"G2 W7":   "W7(1) G2(1)",
		"H2 N3":   "H2(1) N3(1)",
		"H5 N5":   "H5(1)>W7(1) N5(1)",
		"I2 W18":  "W18(1) I2(3)",
		"K1 W7":   "K1(1) W7(1)",
		"K1 W14":  "K1(1)>W14(1)",
		"K7 W7":   "K7(1) W7(1)",
		"K10 N5":  "K10(1) N5(1)",
		"K10 W25": "K10(1) W25(11)",
		"M15 K7":  "K7(1) M15(1)",
		"M15 W14": "W14(1) M15(1)",
		"N1 W7":   "N1(1) W7(1)",
		"N1 W18":  "N1(1) W18(1)",
		"N2 W7":   "W7(1)>N2(1)",
		"N3 N5":   "N3(1) N5(1)",
		"O1 D8":   "D8(1) O1(1)",
		"O1 W7":   "W7(1) O1(1)",
		"W14 W25": "W25(11) W14(1)",
	} {
		t.Run(pair, func(t *testing.T) {
			first, second, _ := strings.Cut(pair, " ")
			changes := slices.Concat(single()[finding.ID(first)], single()[finding.ID(second)])
			d := Diagnose(newSnapshot(templates.Deployment, 10, changes...))
			if got := words(d); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			for _, id := range []string{first, second} {
				if !strings.Contains(words(d), id+"(") {
					t.Errorf("%s is not named: %s", id, words(d))
				}
			}
			if !slices.IsSortedFunc(d.Causes, func(a, b Cause) int { return a.Severity.Compare(b.Severity) }) {
				t.Errorf("a warning stands above an error: %s", words(d))
			}
		})
	}
}

// Each of them by itself is its cluster's only root cause.
func TestDiagnose_PairsAlone(t *testing.T) {
	for id, changes := range single() {
		d := Diagnose(newSnapshot(templates.Deployment, 10, changes...))
		if len(d.Causes) != 1 || d.Causes[0].ID != id {
			t.Errorf("%s: got %s", id, words(d))
		}
	}
}
