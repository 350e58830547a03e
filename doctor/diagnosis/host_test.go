package diagnosis

import (
	"errors"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/templates"
)

func TestDiagnose_Disks(t *testing.T) {
	const giB = 1 << 30
	for name, tt := range map[string]struct {
		disks []HostDisk
		want  string
	}{
		"room":               {[]HostDisk{{Path: "/", Bytes: 100 * giB, FreeBytes: 20 * giB, Inodes: 100, FreeInodes: 50, EvictsBelow: 10}}, ""},
		"below the limit":    {[]HostDisk{{Path: "/", Bytes: 100 * giB, FreeBytes: 9 * giB, EvictsBelow: 10}}, "K10(1)"},
		"no limit, and room": {[]HostDisk{{Path: "/", Bytes: 100 * giB, FreeBytes: giB}}, ""},
		"full":               {[]HostDisk{{Path: "/", Bytes: 100 * giB, FreeBytes: 1 << 20}}, "K10(1)"},
		"no inodes":          {[]HostDisk{{Path: "/", Bytes: 100, FreeBytes: giB, Inodes: 1000, FreeInodes: 10, EvictsBelow: 10}}, "K10(1)"},
		"one, twice": {[]HostDisk{
			{Path: "/", Bytes: 100 * giB, FreeBytes: 1 << 20}, {Path: "/var/lib/etcd", Bytes: 100 * giB, FreeBytes: 1 << 20},
		}, "K10(1)"},
		"a file system that does not tell": {[]HostDisk{{Path: "/"}}, ""},
	} {
		s := newSnapshot(templates.StaticPod, 1)
		s.Host = &Host{Name: "cp1", Node: "cp1", Disks: tt.disks}
		if got := words(Diagnose(s)); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
}

// A machine's faults stand above what the API server shows of them.
func TestDiagnose_HostAboveCluster(t *testing.T) {
	s := newSnapshot(templates.StaticPod, 3, stale)
	s.Heartbeats[1].Spec.RenewTime.Time = taken.Add(-1e12)
	s.Host = &Host{Name: "w1", Node: "w1", Version: "v1.36.3", Unit: &HostUnit{Load: "loaded", Active: "activating", Sub: "auto-restart", Restarts: 9}}
	if got := words(Diagnose(s)); !strings.Contains(got, "K1(1)>W14(1)") {
		t.Errorf("got %s", got)
	}
	s.Host.Node = "cp1" // another machine's kubelet explains nothing of it
	if got := words(Diagnose(s)); strings.Contains(got, "K1(1)>") || !strings.Contains(got, "W14(1)") {
		t.Errorf("got %s", got)
	}
}

// Where nobody said where the cluster is, a machine without faults is an answer; where it did not answer, it is none.
func TestBlind_WithHost(t *testing.T) {
	for _, tried := range []bool{false, true} {
		s := Unreached(errors.New("connection refused"), tried)
		s.Host = &Host{Name: hostile, Node: hostile, Unit: &HostUnit{PID: 1, Active: "active"}}
		d := Diagnose(s)
		if d.Blind() != tried || len(d.Causes) > 0 || len(d.NotLooked) > 0 {
			t.Errorf("tried %v: blind %v, %s, %v", tried, d.Blind(), words(d), d.NotLooked)
		}
		var text strings.Builder
		if err := d.WriteText(&text, false); err != nil || strings.ContainsAny(text.String(), "\x1b\a\r") {
			t.Errorf("%v: %q", err, text.String())
		}
	}
}
