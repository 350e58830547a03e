package host

import (
	"testing"

	"github.com/ccmadm/ccmadm/machine/machinetest"
)

// TestLook_Kernel: settings of the kernel are findings only where they concern pods.
func TestLook_Kernel(t *testing.T) {
	const (
		bridge  = "/proc/sys/net/bridge/bridge-nf-call-iptables"
		port    = "/sys/class/net/cni0/brif/veth1/state"
		tracked = "/proc/sys/net/netfilter/nf_conntrack_count"
		most    = "/proc/sys/net/netfilter/nf_conntrack_max"
	)
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a bridge that no rule sees":   {files: map[string]string{port: "3", bridge: "0\n"}, want: "K20"},
		"br_netfilter is not loaded":   {files: map[string]string{port: "3"}, want: "K20"},
		"rules see the bridge":         {files: map[string]string{port: "3", bridge: "1\n"}},
		"a bridge without pods":        {files: map[string]string{"/sys/class/net/cni0/bridge/stp_state": "0", bridge: "0\n"}},
		"no bridge":                    {files: map[string]string{bridge: "0\n"}},
		"connections are tracked":      {files: map[string]string{tracked: "900\n", most: "1000\n"}},
		"no room for more connections": {files: map[string]string{tracked: "950\n", most: "1000\n"}, want: "K19"},
		"IPv6 without pods of it":      {files: map[string]string{"/proc/sys/net/ipv6/conf/all/forwarding": "0\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, _ := newHost(t, 0)
			for path, text := range tt.files {
				machinetest.Put(t, m, path, text)
			}
			if ids, text := hostWords(diagnoseHost(t, m)); ids != tt.want {
				t.Errorf("got %s, want %s\n%s", ids, tt.want, text)
			}
		})
	}
}
