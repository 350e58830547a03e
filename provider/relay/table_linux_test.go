package relay

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/ccmadm/ccmadm/provider/kernel"
)

// The table of a killed agent goes when the next one starts, and is made anew for what that owns. Others' stay as they
// are, and what somebody else has removed comes back.
func TestRelay_Table(t *testing.T) {
	n := newNetwork(t)
	n.serveAt("10.9.1.2:8080")
	front := netip.MustParseAddrPort("10.9.2.1:80")
	dead := redirect{To: netip.MustParseAddrPort("10.9.0.1:9"), From: []netip.AddrPort{front}}
	if err := writeTable(n.node, []redirect{dead}); err != nil {
		t.Fatal(err)
	}
	foreign := n.foreignTable()
	if _, _, err := n.ask(n.client, front.String()); err == nil {
		t.Fatal("the table that was left does nothing")
	}
	n.start()
	n.eventually("the table that was left is gone", func() bool { return !n.hasTable() })
	n.carry(Frontend{Address: front, Endpoints: to("10.9.1.2:8080")})
	answers := func() bool { answer, _, err := n.ask(n.client, front.String()); return err == nil && answer == "ping" }
	if !answers() {
		t.Error("the address is not carried")
	}
	if err := kernel.Remove(n.node, kernel.ProxyTable); err != nil {
		t.Fatal(err)
	}
	n.eventually("a table that somebody has removed is back", n.hasTable)
	if !answers() {
		t.Error("the address is not carried any more")
	}
	n.Carry(nil)
	n.eventually("what is not owned is not redirected", func() bool { return !n.hasTable() })
	n.carry(Frontend{Address: front, Endpoints: to("10.9.1.2:8080")})
	n.stop()
	if n.hasTable() {
		t.Error("the agent has ended, and its table is there")
	}
	if got := n.packets(foreign); got == 0 {
		t.Error("the rule of another table is gone, or counts no more")
	}
}

// foreignTable is another program's, with a name like ours and a rule that counts what comes to the address.
func (n *network) foreignTable() *nftables.Table {
	n.Helper()
	conn, err := kernel.Nftables(n.node)
	if err != nil {
		n.Fatal(err)
	}
	table := conn.AddTable(&nftables.Table{Name: "ccmadm-proxy-of-others", Family: nftables.TableFamilyINet})
	chain := conn.AddChain(&nftables.Chain{
		Name: "prerouting", Table: table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityRaw,
	})
	conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{&expr.Counter{}}})
	if err := conn.Flush(); err != nil {
		n.Fatal(err)
	}
	return table
}

func (n *network) packets(table *nftables.Table) uint64 {
	n.Helper()
	conn, err := kernel.Nftables(n.node)
	if err != nil {
		n.Fatal(err)
	}
	rules, err := conn.GetRules(table, &nftables.Chain{Name: "prerouting", Table: table})
	if err != nil {
		n.Fatal(err)
	}
	for _, rule := range rules {
		for _, e := range rule.Exprs {
			if counter, is := e.(*expr.Counter); is {
				return counter.Packets
			}
		}
	}
	return 0
}

func (n *network) hasTable() bool {
	n.Helper()
	names, err := kernel.Tables(n.node)
	if err != nil {
		n.Fatal(err)
	}
	return slices.Contains(names, kernel.ProxyTable)
}
