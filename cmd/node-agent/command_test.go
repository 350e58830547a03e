package main

import (
	"context"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/ccmadm/ccmadm/agent"
	"github.com/ccmadm/ccmadm/agent/vip"
	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

func TestMain(m *testing.M) {
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged // each command line applies it anew
	os.Exit(m.Run())
}

// runs is what a command line makes one of the programs do, or its error.
func runs(t *testing.T, args ...string) (a *agent.Options, v *vip.Options, err error) {
	t.Helper()
	cmd := newCommand("v1", programs{
		agent: func(_ context.Context, o agent.Options) error { a = &o; return nil },
		vip:   func(_ context.Context, o vip.Options) error { v = &o; return nil },
	})
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(t.Context())
	return a, v, err
}

// Each flag of the agent reaches it, and what is not said is as --help has it.
func TestCommand(t *testing.T) {
	for _, tt := range []struct {
		name string
		args string
		want agent.Options
	}{
		{
			name: "what is required",
			args: "--node-name=w1 --heartbeat-key-file=/key",
			want: agent.Options{
				Version: "v1", NodeName: "w1", HeartbeatKeyFile: "/key", HeartbeatPort: v1alpha1.HeartbeatPort, MetricsAddress: "127.0.0.1:10392",
			},
		},
		{
			name: "all",
			args: "--node-name=w1 --heartbeat-key-file=/key --kubeconfig=/config --heartbeat-port=7 --address=192.0.2.11 --metrics-address= " +
				"--control-plane-vip=192.0.2.10:6443 --routes --cluster-cidr=10.244.1.1/16,fd00:244::/56 --cni-config-dir=/cni",
			want: agent.Options{
				Version: "v1", NodeName: "w1", Kubeconfig: "/config", HeartbeatKeyFile: "/key", HeartbeatPort: 7,
				Address: netip.MustParseAddr("192.0.2.11"), ControlPlaneVIP: netip.MustParseAddrPort("192.0.2.10:6443"), Routes: true,
				ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:244::/56")}, CNIConfigDir: "/cni",
			},
		},
	} {
		got, other, err := runs(t, strings.Fields(tt.args)...)
		if err != nil || got == nil || other != nil {
			t.Errorf("%s: %v, and it runs %v, %v", tt.name, err, got, other)
			continue
		}
		if got.Count == nil {
			t.Errorf("%s: nothing is counted", tt.name)
		}
		compare := []cmp.Option{cmpopts.IgnoreFields(agent.Options{}, "Count", "CountHooks", "CountEgress"), cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{}, netip.Prefix{})}
		if diff := cmp.Diff(tt.want, *got, compare...); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// Each flag of `vip` reaches that program, by L2 and by BGP.
func TestCommand_VIP(t *testing.T) {
	const common = "vip --node-name=cp1 --node-address=192.0.2.11 --vip=192.0.2.10 --ca-file=/ca "
	here := vip.Options{
		NodeName: "cp1", NodeAddress: netip.MustParseAddr("192.0.2.11"), Address: netip.MustParseAddr("192.0.2.10"), CAFile: "/ca",
		APIServerPort: 6443, HeartbeatPort: v1alpha1.VIPHeartbeatPort, MetricsAddress: "127.0.0.1:10394",
	}
	l2, bgp := here, here
	l2.Interface, l2.MembersFile, l2.SecretFile, l2.Kubeconfig = "eth0", "/members", "/secret", "/config"
	l2.APIServerPort, l2.HeartbeatPort, l2.MetricsAddress = 6444, 7, ""
	bgp.BGP = &config.ControlPlaneVIPBGP{LocalASN: 64512, Peers: []config.ControlPlaneVIPPeer{{Address: "192.0.2.1", ASN: 64500}}}
	for args, want := range map[string]vip.Options{
		common + "--interface=eth0 --members-file=/members --secret-file=/secret --kubeconfig=/config " +
			"--api-server-port=6444 --heartbeat-port=7 --metrics-address=": l2,
		common + `--bgp={"localASN":64512,"peers":[{"address":"192.0.2.1","asn":64500}]}`: bgp,
	} {
		other, got, err := runs(t, strings.Fields(args)...)
		if err != nil || got == nil || other != nil {
			t.Errorf("%s: %v, and it runs %v, %v", args, err, other, got)
			continue
		}
		if diff := cmp.Diff(want, *got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", args, diff)
		}
	}
}

// What cannot be meant is refused before anything runs, with the name of the flag.
func TestCommand_Refuses(t *testing.T) {
	const w1, cp1 = "--node-name=w1 --heartbeat-key-file=/key ", "vip --node-name=cp1 --ca-file=/ca "
	for args, want := range map[string]string{
		"--heartbeat-key-file=/key":                                              "--node-name: must be set",
		"--node-name=w1":                                                         "--heartbeat-key-file: must be set",
		w1 + "--address=w1":                                                      "--address: ",
		w1 + "--control-plane-vip=192.0.2.10":                                    "--control-plane-vip: ",
		w1 + "--cluster-cidr=10.244.0.0/16":                                      "--cluster-cidr, --cni-config-dir: need --routes",
		w1 + "--cni-config-dir=/cni":                                             "--cluster-cidr, --cni-config-dir: need --routes",
		w1 + "--routes --cluster-cidr=10.244.0.0":                                "--cluster-cidr: ",
		cp1 + "--node-address=192.0.2.11 --bgp={}":                               `required flag(s) "vip" not set`,
		cp1 + "--node-address=cp1 --vip=192.0.2.10 --bgp={}":                     "--node-address: ",
		cp1 + "--node-address=192.0.2.11 --vip=api --bgp={}":                     "--vip: ",
		cp1 + "--node-address=192.0.2.11 --vip=192.0.2.10":                       "at least one of the flags in the group [interface bgp] is required",
		cp1 + "--node-address=192.0.2.11 --vip=192.0.2.10 --interface=eth0":      "they must all be set",
		cp1 + "--node-address=192.0.2.11 --vip=192.0.2.10 --bgp={\"speaker\":1}": "--bgp: ",
	} {
		a, v, err := runs(t, strings.Fields(args)...)
		if err == nil || !strings.Contains(err.Error(), want) || a != nil || v != nil {
			t.Errorf("%s: %v, and it runs %v, %v, want %q", args, err, a, v, want)
		}
	}
}

func TestParseVIP(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.10:6443": "192.0.2.10:6443", "[2001:db8::10]:443": "[2001:db8::10]:443", "[::ffff:192.0.2.10]:6443": "192.0.2.10:6443",
		"192.0.2.10": "", "192.0.2.10:0": "", "127.0.0.1:6443": "", "api.example:6443": "", "[fe80::1%eth0]:6443": "",
	} {
		got, err := parseVIP(text)
		if (err == nil) != (want != "") || err == nil && got.String() != want {
			t.Errorf("%q: got %s, %v, want %q", text, got, err, want)
		}
	}
}
