package diagnosis

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

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

// A certificate that has ended explains a rejected kubelet only where one of the two uses it; a rejected kubelet explains its silent Node.
func TestDiagnose_Rejected(t *testing.T) {
	for file, want := range map[string]string{
		"": "K17(1)>W14(1)", "/var/lib/kubelet/pki/kubelet-client-current.pem": "K5(1)>K17(1)>W14(1)", "/etc/kubernetes/pki/apiserver.crt": "K5(1)>K17(1)>W14(1)",
		"/etc/kubernetes/pki/etcd/ca.crt": "K5(1)>W14(1) K17(1)",
	} {
		s := newSnapshot(templates.StaticPod, 3, stale)
		s.Heartbeats[1].Spec.RenewTime.Time = taken.Add(-1e12)
		s.Host = &Host{Name: "w1", Node: "w1", Registered: &HostNode{Name: "w1", Rejected: "Unauthorized"}}
		if file != "" {
			s.Host.Certificates = []HostCertificate{{File: file, Begin: taken.Add(-2e12), End: taken.Add(-1e12)}}
		}
		if got := words(Diagnose(s)); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", file, got, want)
		}
	}
}

// TestDiagnose_SeveralOfOneMachine: of what a machine or a Node has several of, each is named, with one remedy for all certificates that kubeadm
// renews.
func TestDiagnose_SeveralOfOneMachine(t *testing.T) {
	const kubelet, again = "/var/lib/kubelet/pki/kubelet-client-current.pem", "make the kubelet's again"
	certificate := func(file string, left time.Duration) HostCertificate {
		renew := "kubeadm certs renew " + file
		if file == kubelet {
			renew = again
		}
		return HostCertificate{File: "/etc/kubernetes/" + file, Begin: taken.Add(-1e17), End: taken.Add(left), Renew: renew}
	}
	ended := func(files ...string) Host {
		h := Host{Registered: &HostNode{Name: "w1", Rejected: "Unauthorized"}}
		for _, file := range files {
			h.Certificates = append(h.Certificates, certificate(file, -time.Hour))
		}
		return h
	}
	unreached := ended("admin.conf", "scheduler.conf")
	unreached.Registered, unreached.Server = nil, &HostServer{Address: "192.0.2.1:6443", Kind: Refused, Error: "refused"}
	const all = "kubeadm certs renew all, then have the kubelet start its static pods again"
	for name, tt := range map[string]struct {
		host            Host
		want            string
		messages, nexts []string
	}{
		"certificates that have ended": {
			ended("admin.conf", "pki/apiserver.crt", kubelet), "K5(1)>K17(1)>W14(1)",
			[]string{"/admin.conf ended at", "/pki/apiserver.crt ended at", "/kubelet-client-current.pem ended at"},
			[]string{all + ", then: " + again},
		},
		"one of kubeadm's":                      {ended("admin.conf"), "K5(1) K17(1)>W14(1)", nil, []string{"kubeadm certs renew admin.conf"}},
		"no reason that the API server is gone": {unreached, "K5(1) K14(1)>W14(1)", nil, []string{all}},
		"certificates that end": {
			Host{Certificates: []HostCertificate{certificate("a", time.Hour), certificate("b", 25*time.Hour)}},
			"K6(1)",
			[]string{"/a ends at", "; /etc/kubernetes/b ends at"},
			[]string{all},
		},
		"disks": {
			Host{Disks: []HostDisk{{Path: "/var", Bytes: 1 << 40, FreeBytes: 1}, {Path: "/var/log", Bytes: 1 << 30, FreeBytes: 1}}},
			"K10(1)",
			[]string{"/var has", "/var/log has"},
			[]string{"df -h /var;", "df -h /var/log;"},
		},
		"static pods": {Host{Manifests: []HostManifest{{File: "a", Error: "x"}, {File: "b", Error: "y"}}}, "K4(1)", []string{"a: x; b: y"}, nil},
		"flags": {Host{Flags: []HostFlag{
			{Name: "v", Places: []HostPlace{{File: "f", Value: "1"}, {File: "g", Value: "2"}}}, {Name: "root-dir", Places: []HostPlace{{File: "f", Value: "/a"}, {File: "h", Value: "/b"}}},
		}}, "A3(1)", []string{"--v is", "; --root-dir is"}, nil},
	} {
		s := newSnapshot(templates.StaticPod, 3, stale)
		s.Heartbeats[1].Spec.RenewTime.Time = taken.Add(-1e12)
		s.Host = &tt.host
		s.Host.Name, s.Host.Node = "w1", "w1"
		d := Diagnose(s)
		if got := words(d); !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
		at := slices.IndexFunc(d.Causes, func(c Cause) bool { return strings.HasPrefix(tt.want, string(c.ID)+"(") })
		if at < 0 {
			continue
		}
		for _, text := range tt.messages {
			if !strings.Contains(d.Causes[at].Message, text) {
				t.Errorf("%s: got %s, want %s", name, d.Causes[at].Message, text)
			}
		}
		for _, text := range tt.nexts {
			if !strings.Contains(d.Causes[at].Next, text) {
				t.Errorf("%s: got %s, want %s", name, d.Causes[at].Next, text)
			}
		}
	}
}

// A machine that was renamed after it joined has a kubelet that may write the Node of its former name only.
func TestDiagnose_Renamed(t *testing.T) {
	override := HostFlag{Name: "hostname-override", Runs: true, Value: "w9", Places: []HostPlace{{File: "/etc/default/kubelet", Line: 1, Value: "w9"}}}
	const certificate = "its certificate is that of Node w1, and this machine's kubelet has the name "
	for name, tt := range map[string]struct {
		host              Host
		want, words, next string
		severity          finding.Severity
	}{
		"the same name": {host: Host{Node: "w1"}, want: "W14(1)"},
		"its hostname has changed": {
			host: Host{Node: "w1.example.com"}, want: "K18(1)>W14(1)", words: certificate + "w1.example.com", next: "hostnamectl set-hostname w1 && systemctl restart kubelet",
			severity: finding.SeverityError,
		},
		"--hostname-override": {
			host: Host{Node: "w9", Flags: []HostFlag{override}}, want: "K18(1)>W14(1)", words: certificate + "w9",
			next: "set --hostname-override=w1 in /etc/default/kubelet, then: " + restartKubelet, severity: finding.SeverityError,
		},
		"and its Node was deleted": {host: Host{Node: "w9", Registered: &HostNode{Name: "w1", Missing: true}}, want: "K18(1)>N1(1)", severity: finding.SeverityError},
		"not started since": {
			host: Host{Node: "w9", Registered: &HostNode{Name: "w1", Ready: true, ThisBoot: true}}, want: "K18(1)", words: "until its next start it uses its former name",
			severity: finding.SeverityWarning,
		},
	} {
		s := newSnapshot(templates.StaticPod, 3, stale)
		s.Heartbeats[1].Spec.RenewTime.Time = taken.Add(-1e12)
		tt.host.Name, tt.host.Unit = "w1", &HostUnit{PID: 700, Active: "active"}
		if s.Host = &tt.host; tt.host.Registered == nil {
			tt.host.Registered = &HostNode{Name: "w1"}
		}
		d := Diagnose(s)
		if got := words(d); !strings.Contains(got, tt.want) || tt.severity == "" && strings.Contains(got, "K18") {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
		for _, c := range d.Causes {
			if c.ID == finding.KubeletRenamed && (c.Object != "Node/w1" || c.Severity != tt.severity || !strings.Contains(c.Message, tt.words) || !strings.Contains(c.Next, tt.next)) {
				t.Errorf("%s: got %+v", name, c)
			}
		}
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
		external := HostFlag{Name: "cloud-provider", Value: "external", Runs: true}
		for _, value := range tt.places {
			f.Places = append(f.Places, place(value))
		}
		s := newSnapshot(templates.StaticPod, 1)
		s.Host = &Host{Name: "cp1", Node: "cp1", Unit: &HostUnit{PID: 700, Load: "loaded", Active: "active"}, Flags: []HostFlag{external, f}}
		if got := words(Diagnose(s)); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
}

// TestDiagnose_LostFlag: a kubelet whose Node a manager has initialized runs in external cloud mode, in a cluster of others too.
func TestDiagnose_LostFlag(t *testing.T) {
	runs := func(flags ...HostFlag) func(*Snapshot) {
		return func(s *Snapshot) {
			s.Host = &Host{Name: "w1", Node: "w1", Unit: &HostUnit{PID: 700, Load: "loaded", Active: "active"}, Flags: flags}
		}
	}
	config := HostFlag{Name: "config", Value: "/var/lib/kubelet/config.yaml", Runs: true}
	external := HostFlag{Name: "cloud-provider", Value: "external", Runs: true}
	for name, tt := range map[string]struct {
		changes faults
		want    string
	}{
		"without the flag":                   {faults{runs(config)}, "A1(1)"},
		"with an empty one":                  {faults{runs(config, HostFlag{Name: "cloud-provider", Runs: true})}, "A1(1)"},
		"with it":                            {faults{runs(config, external)}, ""},
		"its process was not seen":           {faults{runs()}, ""},
		"the API server has told it":         {faults{runs(config), flag("w1", "")}, ""},
		"with a provider ID of its own":      {faults{runs(config, HostFlag{Name: "provider-id", Value: "metal3://x", Runs: true})}, ""},
		"with one of its configuration":      {faults{runs(config), func(s *Snapshot) { s.Host.ProviderID = "metal3://x" }}, ""},
		"a Node that was never external":     {faults{runs(config), untainted}, ""},
		"the cluster has left":               {faults{runs(config), leaderless, func(s *Snapshot) { s.Pods, s.Deployments = nil, nil }}, ""},
		"its manager is there, and stopped":  {faults{runs(config), leaderless, func(s *Snapshot) { s.Pods, s.Deployments[0].Spec.Replicas = nil, new(int32(0)) }}, ""},
		"its manager has no node controller": {faults{runs(config), args("--controllers=service")}, ""},
		"a manager that is not known": {faults{runs(config), func(s *Snapshot) {
			for _, c := range []*corev1.Container{&s.Pods[0].Spec.Containers[0], &s.Deployments[0].Spec.Template.Spec.Containers[0]} {
				c.Image, c.Args = "example.com/cloud-controller-manager:v1", nil
			}
		}}, ""},
	} {
		if got := wordsOf(Diagnose(newSnapshot(templates.Deployment, 3, tt.changes...)), "A1"); got != tt.want {
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

// A Node with pods of IPv6 needs forwarding of IPv6; full tracking is why packets are lost.
func TestDiagnose_Kernel(t *testing.T) {
	for _, tt := range []struct {
		host Host
		want string
	}{
		{Host{Forwarding6Off: true, Registered: &HostNode{Name: "cp1", PodCIDRs: []string{"10.244.0.0/24", "fd00:1::/64"}}}, "net.ipv6.conf.all.forwarding is 0"},
		{Host{ForwardingOff: true, Forwarding6Off: true, Registered: &HostNode{Name: "cp1", PodCIDRs: []string{"fd00:1::/64"}}}, "net.ipv4.ip_forward and net.ipv6.conf.all.forwarding is 0"},
		{Host{Forwarding6Off: true, Registered: &HostNode{Name: "cp1", PodCIDRs: []string{"10.244.0.0/24"}}}, ""},
		{Host{Connections: &HostConnections{Tracked: 100, Most: 100}, Segments: &Segments{Sent: 100, Again: 50}}, "100 of 100 connections are tracked"},
	} {
		s := newSnapshot(templates.StaticPod, 1)
		tt.host.Name, tt.host.Node, s.Host = "cp1", "cp1", &tt.host
		d := Diagnose(s)
		if tt.want == "" && len(d.Causes) > 0 || tt.want != "" && (len(d.Causes) != 1 || d.Causes[0].Message != tt.want) {
			t.Errorf("got %s %+v, want %s", words(d), d.Causes, tt.want)
		}
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
