package routes

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// masqueradeTable is ours alone: it is rewritten as a whole.
const masqueradeTable = "ccmadm-pods"

// family is what differs between IPv4 and IPv6 in a rule. Offsets are those of their headers, in bytes.
type family struct {
	name        string
	protocol    byte
	bits        int
	source      uint32
	destination uint32
	keyType     nftables.SetDatatype
	multicast   netip.Prefix
}

func families() []family {
	return []family{
		{"ip", unix.NFPROTO_IPV4, 32, 12, 16, nftables.TypeIPAddr, netip.MustParsePrefix("224.0.0.0/4")},
		{"ip6", unix.NFPROTO_IPV6, 128, 8, 24, nftables.TypeIP6Addr, netip.MustParsePrefix("ff00::/8")},
	}
}

// masquerade gives packets of the machine's own pods that leave the cluster the machine's address, since no other
// knows the way back to a pod. Between pods and machines of the cluster addresses stay as they are. All of it is
// replaced in one transaction.
func (k *Kernel) masquerade(own, cluster []netip.Prefix) error {
	conn, err := k.nftables()
	if err != nil {
		return err
	}
	table := ourTable()
	conn.AddTable(table) // so that there is one to delete
	conn.DelTable(table)
	conn.AddTable(table)
	chain := conn.AddChain(&nftables.Chain{
		Name: "postrouting", Table: table, Type: nftables.ChainTypeNAT,
		Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
	})
	for _, f := range families() {
		set := &nftables.Set{Table: table, Name: "cluster-" + f.name, KeyType: f.keyType, Interval: true}
		if err := addSet(conn, set, f.elements(append(f.of(cluster), f.multicast))); err != nil {
			return fmt.Errorf("render set %s of table %s: %w", set.Name, masqueradeTable, err)
		}
		for _, pods := range f.of(own) {
			conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: f.rule(pods, set)})
		}
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("write table %s of nftables: %w", masqueradeTable, err)
	}
	return nil
}

// nftables reaches the filters of the same namespace.
func (k *Kernel) nftables() (*nftables.Conn, error) {
	var options []nftables.ConnOption
	if k.namespace.IsOpen() {
		options = append(options, nftables.WithNetNSFd(int(k.namespace)))
	}
	conn, err := nftables.New(options...)
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	return conn, nil
}

func ourTable() *nftables.Table {
	return &nftables.Table{Name: masqueradeTable, Family: nftables.TableFamilyINet}
}

// messageElements is how many elements go into one message. Its list has a length of 16 bits, which netlink does not
// check: 1638 of IPv4 fit, 1022 of IPv6. Even, so that both ends of a range go together.
const messageElements = 500

// addSet makes a set of any size.
func addSet(conn *nftables.Conn, set *nftables.Set, elements []nftables.SetElement) error {
	if err := conn.AddSet(set, nil); err != nil {
		return err
	}
	for part := range slices.Chunk(elements, messageElements) {
		if err := conn.SetAddElements(set, part); err != nil {
			return err
		}
	}
	return nil
}

func (f family) of(list []netip.Prefix) []netip.Prefix {
	var of []netip.Prefix
	for _, p := range list {
		if p.Addr().BitLen() == f.bits {
			of = append(of, p)
		}
	}
	return of
}

// elements are pairs of a range's first address and the one after its last.
func (f family) elements(ranges []netip.Prefix) []nftables.SetElement {
	var list []nftables.SetElement
	for _, p := range disjoint(ranges) {
		list = append(list, nftables.SetElement{Key: p.Masked().Addr().AsSlice()})
		if end := lastAddress(p).Next(); end.IsValid() { // else the range goes on to the last address of all
			list = append(list, nftables.SetElement{Key: end.AsSlice(), IntervalEnd: true})
		}
	}
	return list
}

func lastAddress(p netip.Prefix) netip.Addr {
	address := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(address)*8; i++ {
		address[i/8] |= 0x80 >> (i % 8)
	}
	last, _ := netip.AddrFromSlice(address)
	return last
}

// rule is: from these pods, to none of the set, masquerade.
func (f family) rule(pods netip.Prefix, set *nftables.Set) []expr.Any {
	size := uint32(f.bits / 8)
	mask := make([]byte, size)
	for i := range pods.Bits() {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{f.protocol}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: f.source, Len: size},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: size, Mask: mask, Xor: make([]byte, size)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: pods.Addr().AsSlice()},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: f.destination, Len: size},
		&expr.Lookup{SourceRegister: 1, SetName: set.Name, SetID: set.ID, Invert: true},
		&expr.Masq{},
	}
}
