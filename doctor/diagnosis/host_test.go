package diagnosis

import (
	"errors"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/finding"
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

// A port is taken only from somebody who wants it: a manager that systemd runs is on its own.
func TestDiagnose_Ports(t *testing.T) {
	manager := HostPort{Port: ccmPort, Program: "aws-cloud-controller-manager", PID: 800}
	static := HostManifest{File: "/etc/kubernetes/manifests/ccm.yaml", Pod: "kube-system/cloud-controller-manager"}
	for name, tt := range map[string]struct {
		mode  templates.Mode
		host  Host
		alter func(*Snapshot)
		want  string
	}{
		"under systemd, and no pod of one": {
			host: Host{Node: "cp1", Ports: []HostPort{manager}}, alter: func(s *Snapshot) { s.Pods = nil },
		},
		"under systemd, and nothing known of the cluster": {
			host: Host{Node: "cp1", Ports: []HostPort{manager}}, alter: func(s *Snapshot) { *s = *Unreached(errors.New("no"), false) },
		},
		"a pod on another machine": {host: Host{Node: "w1", Ports: []HostPort{manager}}},
		"a pod here":               {host: Host{Node: "cp1", Ports: []HostPort{manager}}, want: "B10(1)"},
		"a DaemonSet's pod here":   {mode: templates.DaemonSet, host: Host{Node: "cp1", Ports: []HostPort{manager}}, want: "B10(1)"},
		"a pod here, with a port of its own": {
			host: Host{Node: "cp1", Ports: []HostPort{manager}}, alter: func(s *Snapshot) {
				c := &s.Pods[0].Spec.Containers[0]
				c.Args = append(c.Args, "--secure-port=10268")
			},
		},
		"the pod itself": {host: Host{Node: "cp1", Ports: []HostPort{{Port: ccmPort, Program: "ccm", PID: 800, InPod: true}}}},
		"a static pod's file, whose pod the API server does not show": {
			host:  Host{Node: "cp1", Ports: []HostPort{manager}, Manifests: []HostManifest{static}},
			alter: func(s *Snapshot) { s.Pods = nil }, want: "B10(1)",
		},
	} {
		s := newSnapshot(tt.mode, 2)
		if tt.alter != nil {
			tt.alter(s)
		}
		s.Host = &tt.host
		if got := wordsOf(Diagnose(s), "B10"); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
}

// wordsOf are those of one ID.
func wordsOf(d *Diagnosis, id finding.ID) string {
	only := &Diagnosis{}
	for _, c := range d.Causes {
		if c.ID == id {
			c.Consequences = nil
			only.Causes = append(only.Causes, c)
		}
	}
	return words(only)
}

// Order, blanks and what systemd puts in are no difference between two files, or a file and a process.
func TestDiagnose_FlagValues(t *testing.T) {
	place := func(value string) HostPlace { return HostPlace{File: "/etc/default/kubelet", Line: 1, Value: value} }
	for name, tt := range map[string]struct {
		flag, value string // what runs
		places      []string
		want        string
	}{
		"labels in another order":             {"node-labels", "a=1,b=2", []string{"b=2, a=1"}, ""},
		"labels in two places add up":         {"node-labels", "b=2", []string{"a=1", "b=2"}, ""},
		"a label twice":                       {"node-labels", "a=2", []string{"a=1,b=2", "a=2"}, "A3(1)"},
		"another label since":                 {"node-labels", "a=1", []string{"a=1,b=2"}, "K2(1)"},
		"gates in another order":              {"feature-gates", "A=true,B=false", []string{"B=false,A=true,"}, ""},
		"a gate that contradicts":             {"feature-gates", "A=false", []string{"A=true", "A=false"}, "A3(1)"},
		"eviction in another order":           {"eviction-hard", "x<1%,y<2%", []string{"y<2%,x<1%"}, ""},
		"eviction that has changed":           {"eviction-hard", "x<1%", []string{"x<2%"}, "K2(1)"},
		"taints in another order, in two":     {"register-with-taints", "a=:NoSchedule,b=:NoExecute", []string{"b=:NoExecute,a=:NoSchedule", "a=:NoSchedule,b=:NoExecute"}, ""},
		"taints: the last one wins":           {"register-with-taints", "b=:NoExecute", []string{"a=:NoSchedule", "b=:NoExecute"}, "A3(1)"},
		"name servers add up":                 {"cluster-dns", "10.0.0.2", []string{"10.0.0.1", "10.0.0.2"}, ""},
		"name servers in another order":       {"cluster-dns", "10.0.0.1,10.0.0.2", []string{"10.0.0.2,10.0.0.1"}, "K2(1)"},
		"a variable":                          {"hostname-override", "cp1", []string{"$NAME"}, ""},
		"a variable in braces, in one of two": {"hostname-override", "cp1", []string{"${NAME}", "cp1"}, ""},
		"a specifier of systemd":              {"hostname-override", "cp1", []string{"%H"}, ""},
		"a variable that the process lacks":   {"-", "", []string{"$V"}, "K2(1)"},
		"a percentage is no specifier":        {"eviction-hard", "x<1%", []string{"x<2%,y<3%"}, "K2(1)"},
	} {
		f := HostFlag{Name: tt.flag, Value: tt.value, Runs: tt.flag != "-"}
		for _, value := range tt.places {
			f.Places = append(f.Places, place(value))
		}
		s := newSnapshot(templates.StaticPod, 1)
		s.Host = &Host{Name: "cp1", Node: "cp1", Unit: &HostUnit{PID: 700, Load: "loaded", Active: "active"}, Flags: []HostFlag{f}}
		if got := words(Diagnose(s)); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
}

// What a variable has become cannot be told, so a kubelet that has one is not started again by itself.
func TestHost_RestartIsSafe_Variable(t *testing.T) {
	h := &Host{Unit: &HostUnit{PID: 700}, Flags: []HostFlag{
		{Name: "cloud-provider", Places: []HostPlace{{File: "f", Value: "external"}}},
	}}
	if !h.restartIsSafe() {
		t.Error("a kubelet that lacks external cloud mode may be started again")
	}
	h.Flags = append(h.Flags, HostFlag{Name: "node-ip", Runs: true, Value: "192.0.2.1", Places: []HostPlace{{File: "f", Value: "$IP"}}})
	if h.restartIsSafe() {
		t.Error("a kubelet whose address is a variable would be started again")
	}
}

// TestForwarding: a machine of IPv6 alone forwards no packet of IPv4.
func TestForwarding(t *testing.T) {
	for _, tt := range []struct {
		name, node string
		addresses  []string
		want       int
	}{
		{"IPv4", "198.18.0.11", []string{"127.0.0.1", "198.18.0.11"}, 1},
		{"its addresses are not known", "198.18.0.11", nil, 1},
		{"IPv6 alone", "fd00::11", []string{"127.0.0.1", "169.254.20.10", "fd00::11", "fe80::1"}, 0},
		{"a Node of IPv6, on a machine that has a bridge", "fd00::11", []string{"fd00::11", "172.17.0.1"}, 0},
	} {
		s := newSnapshot(templates.Deployment, 1, func(s *Snapshot) {
			s.Host = &Host{Name: "w1", Node: "w1", ForwardingOff: true, Addresses: tt.addresses}
			s.Nodes[1].Status.Addresses[0].Address = tt.node
		})
		if got := forwarding(s); len(got) != tt.want {
			t.Errorf("%s: got %+v", tt.name, got)
		}
	}
}
