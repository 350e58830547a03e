package agent

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/nftables"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
	"github.com/ccmadm/ccmadm/provider/controlplane"
	"github.com/ccmadm/ccmadm/provider/netfilter"
	"github.com/ccmadm/ccmadm/provider/netfilter/netnstest"
)

// The table that keeps kube-proxy away from the control plane's address comes back after `nft flush ruleset`, its rules after `nft flush table`,
// and nothing does without such an address.
func TestAPIServers_KeepShield(t *testing.T) {
	manifeststest.NeedRoot(t)
	machine := netnstest.New(t)
	vip := netip.MustParseAddrPort("192.0.2.10:6443")
	for _, tt := range []struct {
		name   string
		vip    netip.AddrPort
		remove func(*testing.T)
		runs   time.Duration
		rules  int
	}{
		{"the table is removed", vip, removeShield, planeInterval + planeInterval/2, 2},
		{"its rules are removed", vip, flushShield, time.Minute + planeInterval, 2},
		{"no address", netip.AddrPort{}, removeShield, planeInterval + planeInterval/2, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				machine.Inside(func() {
					p := newAPIServers(&rest.Config{}, nil)
					p.shield(tt.vip)
					tt.remove(t)
					ctx, cancel := context.WithTimeout(t.Context(), tt.runs)
					p.run(ctx)
					cancel()
					if rules := shieldRules(t); rules != tt.rules {
						t.Errorf("the table has %d rules, want %d", rules, tt.rules)
					}
					removeShield(t)
				})
			})
		})
	}
}

func removeShield(t *testing.T) {
	t.Helper()
	must(t, controlplane.Unshield())
}

func flushShield(t *testing.T) {
	t.Helper()
	conn, err := nftables.New()
	must(t, err)
	conn.FlushTable(netfilter.Inet("ccmadm-control-plane"))
	must(t, conn.Flush())
	if rules := shieldRules(t); rules != 0 {
		t.Fatalf("the table has %d rules after it was flushed: this shows nothing", rules)
	}
}

// shieldRules is how many rules the table has.
func shieldRules(t *testing.T) (n int) {
	t.Helper()
	conn, err := nftables.New()
	must(t, err)
	chains, err := conn.ListChains()
	must(t, err)
	for _, chain := range chains {
		rules, err := conn.GetRules(chain.Table, chain)
		must(t, err)
		n += len(rules)
	}
	return n
}
