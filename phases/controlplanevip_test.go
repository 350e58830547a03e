package phases

import (
	"slices"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/bootstrap"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// withVIP says on which interface, since a test's machine has none.
func withVIP(address string) workflow.Inputs {
	said := config.CloudConfiguration{}
	said.ControlPlaneVIP = config.ControlPlaneVIP{Address: address, Interface: "eth0"}
	return workflow.Inputs{Request: workflow.Request{Flags: said}}
}

func TestControlPlaneVIP_Writes(t *testing.T) {
	m, runner := machinetest.New(t)
	r := phasestest.Run{Config: phasestest.InitConfig, Inputs: withVIP("192.0.2.10")}
	if out, err := r.Do(t, m, bootstrap.KubeadmConfig()); err != nil || !strings.Contains(out, "set controlPlaneEndpoint 192.0.2.10:6443") {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := machinetest.Content(m, machine.KubeadmConfig); !strings.Contains(got, "controlPlaneEndpoint: 192.0.2.10:6443\n") {
		t.Errorf("kubeadm's configuration has no endpoint:\n%s", got)
	}
	for i := range 2 {
		out, err := r.Do(t, m, bootstrap.ControlPlaneVIP())
		if err != nil || i == 1 && (strings.Contains(out, "written") || !strings.Contains(out, machine.VIPManifest+" unchanged")) {
			t.Fatalf("run %d: %v\n%s", i, err, out)
		}
	}
	for path, want := range map[string]string{
		machine.VIPMembers:  `[{"name":"cp1","address":"` + machinetest.Address + `"}]`,
		machine.VIPSysctl:   "net/ipv4/conf/eth0/arp_ignore = 1\n",
		machine.VIPManifest: "- --vip=192.0.2.10\n",
	} {
		if got := machinetest.Content(m, path); !strings.Contains(got, want) {
			t.Errorf("%s has no %q:\n%s", path, want, got)
		}
	}
	if last := runner.Ran[len(runner.Ran)-1]; last != "sysctl -q -p "+m.Path(machine.VIPSysctl) {
		t.Errorf("ran %q last: the kernel goes on answering ARP", last)
	}
	if strings.Contains(machinetest.Content(m, machine.VIPManifest), "serviceAccount") {
		t.Error("the static pod refers to the API")
	}
}

// By BGP the manifest is all: nobody else is asked, and no interface is needed.
func TestControlPlaneVIP_WritesForBGP(t *testing.T) {
	m, runner := machinetest.New(t)
	r := phasestest.Run{Config: phasestest.InitConfig, Inputs: phasestest.Announced("203.0.113.10")}
	out, err := r.Do(t, m, bootstrap.KubeadmConfig())
	if err != nil || !strings.Contains(out, "set controlPlaneEndpoint 203.0.113.10:6443") {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, done := range []string{" written", " unchanged"} {
		if out, err := r.Do(t, m, bootstrap.ControlPlaneVIP()); err != nil || !strings.Contains(out, machine.VIPManifest+done) {
			t.Fatalf("%v: not%s\n%s", err, done, out)
		}
	}
	const want = `- --bgp={"localASN":64512,"peers":[{"address":"192.0.2.1","asn":64500}]}`
	if got := machinetest.Content(m, machine.VIPManifest); !strings.Contains(got, want) {
		t.Errorf("the manifest has no %s:\n%s", want, got)
	}
	for _, path := range []string{machine.VIPMembers, machine.VIPSysctl} {
		if there, err := m.Exists(path); err != nil || there {
			t.Errorf("%s is there (%v)", path, err)
		}
	}
	if slices.ContainsFunc(runner.Ran, func(command string) bool { return strings.HasPrefix(command, "sysctl") }) {
		t.Errorf("ran %q", runner.Ran)
	}
}

// A control plane that joins has the record's routers, and asks the API server for nobody.
func TestJoinControlPlaneVIP_BGP(t *testing.T) {
	m, _ := machinetest.New(t)
	const bgp = "{localASN: 64512, peers: [{address: 192.0.2.1, asn: 64500, bfd: {enabled: true}}]}"
	machinetest.Put(t, m, machine.RecordFile, "apiVersion: ccmadm.dev/v1alpha1\nkind: Record\nconfiguration: "+
		"{provider: onprem, clusterName: ber1, mode: StaticPod, controlPlaneVIP: {address: 203.0.113.10, bgp: "+bgp+"}}\n")
	r := phasestest.Run{Config: phasestest.JoinConfig + "controlPlane: {}\n", Inputs: workflow.Inputs{Role: kubeadm.RoleJoin}}
	out, err := r.Do(t, m, bootstrap.JoinControlPlaneVIP())
	const want = `"peers":[{"address":"192.0.2.1","asn":64500,"bfd":{"enabled":true}}]}`
	if got := machinetest.Content(m, machine.VIPManifest); err != nil || !strings.Contains(got, want) {
		t.Errorf("%v: the manifest has no %s:\n%s\n%s", err, want, got, out)
	}
}

func TestControlPlaneVIP_NothingUnlessAsked(t *testing.T) {
	m, _ := machinetest.New(t)
	before := len(phasestest.Snapshot(t, m))
	if out, err := (phasestest.Run{Config: phasestest.InitConfig}).Do(t, m, bootstrap.ControlPlaneVIP()); err != nil || out != "" {
		t.Errorf("%v: %q", err, out)
	}
	if after := len(phasestest.Snapshot(t, m)); after != before {
		t.Errorf("%d files, and there were %d", after, before)
	}
}

func TestControlPlaneVIP_Refused(t *testing.T) {
	for _, tt := range []struct {
		name, config string
		options      workflow.Inputs
		wantErr      string
	}{
		{
			name: "another endpoint", options: withVIP("192.0.2.10"),
			config:  phasestest.InitConfig + "---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\ncontrolPlaneEndpoint: lb.example:6443\n",
			wantErr: "controlPlaneVIP.address 192.0.2.10: kubeadm's controlPlaneEndpoint is lb.example:6443",
		},
		{
			name: "a provider without agent", config: phasestest.InitConfig,
			options: func() workflow.Inputs { o := withVIP("192.0.2.10"); o.Flags.Provider = "hetzner"; return o }(),
			wantErr: "provider hetzner has no node agent that could hold the address",
		},
		{
			name: "mode Manual", config: phasestest.InitConfig,
			options: func() workflow.Inputs { o := withVIP("192.0.2.10"); o.Flags.Mode = config.ModeManual; return o }(),
			wantErr: "in mode Manual nothing of the provider is brought by ccmadm",
		},
		{
			name: "BGP without an address", config: phasestest.InitConfig, options: phasestest.Announced(""),
			wantErr: "controlPlaneVIP.bgp: there is no address to announce",
		},
		{
			name: "BGP on an interface",
			config: phasestest.InitConfig + "---\napiVersion: ccmadm.dev/v1alpha1\nkind: CloudConfiguration\n" +
				"controlPlaneVIP: {bgp: {localASN: 64512, peers: [{address: 192.0.2.1, asn: 64500}]}}\n",
			options: withVIP("203.0.113.10"),
			wantErr: "with bgp no machine answers for the address on an interface",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := machinetest.New(t)
			r := phasestest.Run{Config: tt.config, Inputs: tt.options}
			_, err := r.Do(t, m, bootstrap.KubeadmConfig())
			if err == nil {
				_, err = r.Do(t, m, bootstrap.ControlPlaneVIP())
			}
			phasestest.WantError(t, err, tt.wantErr, finding.ExitUsage)
		})
	}
	for _, address := range []string{"127.0.0.1", "224.0.0.1", "fe80::1%eth0", "lb.example", "0.0.0.0"} {
		if _, _, err := (phasestest.Run{Config: phasestest.InitConfig, Inputs: withVIP(address)}).Data(t, must2(machinetest.New(t))); err == nil {
			t.Errorf("%s is taken for an address", address)
		}
	}
}

func must2[A, B any](a A, _ B) A { return a }

// An endpoint that says the same is kept as it was written.
func TestControlPlaneVIP_KeepsTheUsersSpelling(t *testing.T) {
	m, _ := machinetest.New(t)
	const cluster = "---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\ncontrolPlaneEndpoint: 192.0.2.10 # ours\n"
	if _, err := (phasestest.Run{Config: phasestest.InitConfig + cluster, Inputs: withVIP("192.0.2.10")}).Do(t, m, bootstrap.KubeadmConfig()); err != nil {
		t.Fatal(err)
	}
	if got := machinetest.Content(m, machine.KubeadmConfig); !strings.Contains(got, "controlPlaneEndpoint: 192.0.2.10 # ours\n") {
		t.Errorf("kubeadm's configuration is\n%s", got)
	}
}

// Workers hold nothing.
func TestJoinControlPlaneVIP_Worker(t *testing.T) {
	m, _ := machinetest.New(t)
	machinetest.Put(t, m, machine.RecordFile, "apiVersion: ccmadm.dev/v1alpha1\nkind: Record\nconfiguration: {provider: onprem, clusterName: ber1, mode: StaticPod, controlPlaneVIP: {address: 192.0.2.10, interface: eth0}}\n")
	r := phasestest.Run{Config: phasestest.JoinConfig, Inputs: workflow.Inputs{Role: kubeadm.RoleJoin}}
	if out, err := r.Do(t, m, bootstrap.JoinControlPlaneVIP()); err != nil || machinetest.Content(m, machine.VIPManifest) != "" {
		t.Errorf("%v\n%s", err, out)
	}
}

// A pod that was killed leaves the address behind: a reset takes it away.
func TestReset_ReleasesTheAddress(t *testing.T) {
	for address, options := range map[string]workflow.Inputs{
		"192.0.2.10": withVIP("192.0.2.10"), "203.0.113.10": phasestest.Announced("203.0.113.10"),
	} {
		t.Run(address, func(t *testing.T) { releases(t, address, options) })
	}
}

func releases(t *testing.T, address string, options workflow.Inputs) {
	t.Helper()
	m, runner := machinetest.New(t)
	r := phasestest.Run{Config: phasestest.InitConfig, Inputs: options}
	for _, p := range []workflow.Phase{bootstrap.KubeadmConfig(), bootstrap.ControlPlaneVIP()} {
		if out, err := r.Do(t, m, p); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	runner.Answers["ip -o address show"] = "1: lo    inet " + address + "/32 scope global lo\n"
	run, out := r.Must(t, m)
	if err := bootstrap.Reset(t.Context(), run, nil); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if last := runner.Ran[len(runner.Ran)-1]; last != "ip address delete "+address+"/32 dev lo" {
		t.Errorf("ran %q last", last)
	}
	for _, path := range []string{machine.VIPManifest, machine.VIPMembers, machine.VIPSysctl, machine.VIPDir} {
		if there, err := m.Exists(path); err != nil || there {
			t.Errorf("%s is there (%v)", path, err)
		}
	}
}
