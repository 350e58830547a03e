package controlplane

import (
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/ccmadm/ccmadm/provider/netfilter"
)

// shieldPriority is before kube-proxy's chains, which have -100 in modes nftables and iptables, and after conntrack, -200.
const shieldPriority = -150

// Shield keeps connections to the control plane's address where they go, on this machine: kube-proxy's rules for a Service
// with the same address and port do not see them. The first NAT rule decides about a connection, and this one replaces
// the destination with itself, so that connections are tracked as before, firewalls know their answers, and pods of the
// machine are masqueraded. It stays when the program ends, and is made again as a whole.
func Shield(at netip.AddrPort) error {
	conn, err := netfilter.Open(netns.None())
	if err != nil {
		return err
	}
	table := netfilter.Replaced(conn, netfilter.Inet(shieldTable))
	for name, hook := range map[string]*nftables.ChainHook{
		"prerouting": nftables.ChainHookPrerouting, "output": nftables.ChainHookOutput,
	} {
		chain := conn.AddChain(&nftables.Chain{
			Name: name, Table: table, Type: nftables.ChainTypeNAT, Hooknum: hook,
			Priority: nftables.ChainPriorityRef(shieldPriority),
		})
		conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: toItself(at)})
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("write table %s of nftables: %w", shieldTable, err)
	}
	return nil
}

// toItself is the rule: ip daddr ADDRESS tcp dport PORT dnat to ADDRESS.
func toItself(at netip.AddrPort) []expr.Any {
	family, address := netfilter.FamilyOf(at.Addr()), at.Addr().AsSlice()
	return append(family.Packets(),
		family.LoadDestination(1),
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: address},
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(at.Port())},
		&expr.Immediate{Register: 1, Data: address},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(family.Protocol), RegAddrMin: 1},
	)
}

// Shielded reports whether this machine has the table. A kernel without nftables has none.
func Shielded() (bool, error) { return netfilter.HasTable(netns.None(), netfilter.Inet(shieldTable)) }

// Unshield removes the table, if it is there.
func Unshield() error { return netfilter.RemoveTable(netns.None(), netfilter.Inet(shieldTable)) }
