package routes

import (
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/ccmadm/ccmadm/provider/netfilter"
)

// masqueradeTable is ours alone: it is rewritten as a whole.
const masqueradeTable = "ccmadm-pods"

// multicast is never masqueraded.
func multicast() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("ff00::/8")}
}

// masquerade gives packets of the machine's own pods that leave the cluster the machine's address, since no other
// knows the way back to a pod. Between pods and machines of the cluster addresses stay as they are. All of it is
// replaced in one transaction.
func (k *Kernel) masquerade(own, cluster []netip.Prefix) error {
	conn, err := netfilter.Open(k.namespace)
	if err != nil {
		return err
	}
	table := netfilter.Replaced(conn, netfilter.Inet(masqueradeTable))
	chain := conn.AddChain(&nftables.Chain{
		Name: "postrouting", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
	})
	for _, f := range netfilter.Families() {
		set := &nftables.Set{Table: table, Name: "cluster-" + f.Name, KeyType: f.KeyType, Interval: true}
		if err := netfilter.AddSet(conn, set, netfilter.Ranges(f.Of(append(multicast(), cluster...)))); err != nil {
			return err
		}
		for _, pods := range f.Of(own) {
			conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: masqueraded(f, pods, set)})
		}
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("write table %s of nftables: %w", masqueradeTable, err)
	}
	return nil
}

// masqueraded is the rule: from these pods, to none of the set, masquerade.
func masqueraded(f netfilter.Family, pods netip.Prefix, set *nftables.Set) []expr.Any {
	mask := make([]byte, f.Size())
	for i := range pods.Bits() {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	return append(f.Packets(),
		f.LoadSource(1),
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: f.Size(), Mask: mask, Xor: make([]byte, f.Size())},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: pods.Addr().AsSlice()},
		f.LoadDestination(1),
		&expr.Lookup{SourceRegister: 1, SetName: set.Name, SetID: set.ID, Invert: true},
		&expr.Masq{},
	)
}
