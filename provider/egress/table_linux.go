package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/ccmadm/ccmadm/provider/netfilter"
)

const (
	// tableName is ours alone: the table is rewritten as a whole.
	tableName = "ccmadm-egress"
	// mark is set on packets that leave the cluster by another Node. No other bit of a packet's mark is touched: kube-proxy has 0x4000 and
	// 0x8000, Calico 0xffff0000, Cilium 0xf00.
	mark = 0x2000

	// afterDNAT is after kube-proxy has chosen an endpoint (-100), so that the destination is that of the packet on its way.
	afterDNAT = -90
	// beforeMasquerade is before the network add-on gives packets the address of their Node (100). The first rule decides.
	beforeMasquerade = 99
	// last is when addresses are final.
	last = 300
)

// unused addresses never leave a machine, or are none of one destination.
func unused() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("224.0.0.0/3"),
		netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff00::/8"),
	}
}

// sets of one family.
type sets struct {
	netfilter.Family
	cluster *nftables.Set // destinations that are left alone
	pods    *nftables.Set // all pods
	here    *nftables.Set // pods of this Node whose address another Node owns
	sources *nftables.Set // the address with which packets of a pod leave this Node
	allowed *nftables.Set // pairs: pod, and that address
	ways    *nftables.Set // pairs: pod of this Node, and the next hop of its packets
	own     *nftables.Set // addresses of Services
}

// writeTable replaces the table in one transaction.
func (k *Kernel) writeTable(s state) error {
	conn, err := netfilter.Open(k.namespace)
	if err != nil {
		return err
	}
	table := netfilter.Replaced(conn, tableName)
	chain := func(name string, kind nftables.ChainType, hook *nftables.ChainHook, priority nftables.ChainPriority) *nftables.Chain {
		return conn.AddChain(&nftables.Chain{Name: name, Table: table, Type: kind, Hooknum: hook, Priority: &priority})
	}
	prerouting := chain("prerouting", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, afterDNAT)
	translate := chain("translate", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, beforeMasquerade)
	verify := chain("verify", nftables.ChainTypeFilter, nftables.ChainHookPostrouting, last)
	for _, f := range netfilter.Families() {
		sets, err := addSets(conn, table, f, s)
		if err != nil {
			return err
		}
		add := func(to *nftables.Chain, parts ...[]expr.Any) {
			conn.AddRule(&nftables.Rule{Table: table, Chain: to, Exprs: slices.Concat(parts...)})
		}
		add(prerouting, f.Packets(), original(), sets.from(sets.here), sets.out(), setMark())
		add(translate, f.Packets(), sets.out(), sets.translate())
		// What connection tracking does not know is not translated.
		add(verify, f.Packets(), sets.from(sets.pods), sets.out(), invalid(), drop())
		add(verify, f.Packets(), original(), sets.began(sets.pods), sets.out(), sets.notAllowed(), drop())
		add(verify, f.Packets(), original(), sets.began(sets.here), sets.out(), sets.notByWay(), drop())
		// An answer that arrives before the pod's next packet, after a failover, would be taken for a connection of its own, and the port of
		// the pod's connection for one in use.
		add(verify, f.Packets(), forwarded(), sets.toService(), sets.fromOutside(), drop())
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("write table %s of nftables: %w", tableName, err)
	}
	return nil
}

// podsInTable are those of which the table in the kernel speaks, if there is one.
func (k *Kernel) podsInTable() ([]netip.Addr, error) {
	there, err := netfilter.HasTable(k.namespace, tableName)
	if err != nil || !there {
		return nil, err
	}
	conn, err := netfilter.Open(k.namespace)
	if err != nil {
		return nil, err
	}
	var list []netip.Addr
	for _, f := range netfilter.Families() {
		elements, err := conn.GetSetElements(&nftables.Set{Table: netfilter.Table(tableName), Name: "pods-" + f.Name, KeyType: f.KeyType})
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read table %s of nftables: %w", tableName, err)
		}
		for _, e := range elements {
			if ip, ok := netip.AddrFromSlice(e.Key); ok {
				list = append(list, ip)
			}
		}
	}
	return list, nil
}

func addSets(conn *nftables.Conn, table *nftables.Table, f netfilter.Family, s state) (sets, error) {
	pair, err := nftables.ConcatSetType(f.KeyType, f.KeyType)
	if err != nil {
		return sets{}, fmt.Errorf("render table %s: %w", tableName, err)
	}
	set := func(name string, key nftables.SetDatatype) *nftables.Set {
		return &nftables.Set{Table: table, Name: name + "-" + f.Name, KeyType: key}
	}
	all := sets{
		Family: f, cluster: set("cluster", f.KeyType), pods: set("pods", f.KeyType), here: set("here", f.KeyType),
		sources: set("sources", f.KeyType), allowed: set("allowed", pair), ways: set("ways", pair), own: set("services", f.KeyType),
	}
	all.cluster.Interval = true
	all.sources.IsMap, all.sources.DataType = true, f.KeyType
	all.allowed.Concatenation, all.ways.Concatenation = true, true
	elements := map[*nftables.Set][]nftables.SetElement{
		all.cluster: netfilter.Ranges(f.Of(append(unused(), s.Cluster...))),
	}
	add := func(to *nftables.Set, e nftables.SetElement) { elements[to] = append(elements[to], e) }
	known := map[netip.Addr]bool{}
	for _, p := range s.Pods {
		if p.IP.BitLen() != f.Bits {
			continue
		}
		if ip := p.Address.AsSlice(); !known[p.Address] {
			known[p.Address] = true
			add(all.own, nftables.SetElement{Key: ip})
		}
		ip := p.IP.AsSlice()
		add(all.pods, nftables.SetElement{Key: ip})
		if source := p.source(); source.IsValid() {
			add(all.sources, nftables.SetElement{Key: ip, Val: source.AsSlice()})
			add(all.allowed, nftables.SetElement{Key: slices.Concat(ip, source.AsSlice())})
		}
		if p.Here && !p.Owned {
			add(all.here, nftables.SetElement{Key: ip})
			add(all.ways, nftables.SetElement{Key: slices.Concat(ip, p.Address.AsSlice())})
		}
	}
	for _, s := range []*nftables.Set{all.cluster, all.pods, all.here, all.sources, all.allowed, all.ways, all.own} {
		if err := netfilter.AddSet(conn, s, elements[s]); err != nil {
			return sets{}, err
		}
	}
	return all, nil
}

// second is the register after an address in register 1.
func (s sets) second() uint32 {
	if s.Bits == 32 {
		return 9 // NFT_REG32_01: register 1 is 8 to 11
	}
	return 2
}

// from matches the source of a packet, out a destination that is not left alone.
func (s sets) from(set *nftables.Set) []expr.Any {
	return []expr.Any{s.LoadSource(1), &expr.Lookup{SourceRegister: 1, SetName: set.Name, SetID: set.ID}}
}

func (s sets) out() []expr.Any {
	return []expr.Any{s.LoadDestination(1), &expr.Lookup{SourceRegister: 1, SetName: s.cluster.Name, SetID: s.cluster.ID, Invert: true}}
}

// toService matches packets to an address of a Service that kube-proxy has not sent to an endpoint, and fromOutside those of no pod or Node.
func (s sets) toService() []expr.Any {
	return []expr.Any{s.LoadDestination(1), &expr.Lookup{SourceRegister: 1, SetName: s.own.Name, SetID: s.own.ID}}
}

func (s sets) fromOutside() []expr.Any {
	return []expr.Any{s.LoadSource(1), &expr.Lookup{SourceRegister: 1, SetName: s.cluster.Name, SetID: s.cluster.ID, Invert: true}}
}

// began matches the source of a connection's first packet.
func (s sets) began(set *nftables.Set) []expr.Any {
	return []expr.Any{firstSource(), &expr.Lookup{SourceRegister: 1, SetName: set.Name, SetID: set.ID}}
}

// translate gives a packet the source that it has to have.
func (s sets) translate() []expr.Any {
	return []expr.Any{
		s.LoadSource(1),
		&expr.Lookup{SourceRegister: 1, DestRegister: 1, IsDestRegSet: true, SetName: s.sources.Name, SetID: s.sources.ID},
		&expr.NAT{Type: expr.NATTypeSourceNAT, Family: uint32(s.Protocol), RegAddrMin: 1},
	}
}

// notAllowed matches packets with another source, and notByWay those that do not go to the owner.
func (s sets) notAllowed() []expr.Any {
	return []expr.Any{
		firstSource(), s.LoadSource(s.second()),
		&expr.Lookup{SourceRegister: 1, SetName: s.allowed.Name, SetID: s.allowed.ID, Invert: true},
	}
}

func (s sets) notByWay() []expr.Any {
	nextHop := expr.RtNexthop4
	if s.Bits == 128 {
		nextHop = expr.RtNexthop6
	}
	return []expr.Any{
		firstSource(), &expr.Rt{Register: s.second(), Key: nextHop},
		&expr.Lookup{SourceRegister: 1, SetName: s.ways.Name, SetID: s.ways.ID, Invert: true},
	}
}

func firstSource() expr.Any { return &expr.Ct{Key: expr.CtKeySRC, Register: 1, Direction: 0} }

// original matches packets of who has begun a connection.
func original() []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeyDIRECTION, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{0}},
	}
}

// forwarded matches packets that this machine has not sent itself.
func forwarded() []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyIIF, Register: 1},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(0)},
	}
}

func invalid() []expr.Any {
	bits := binaryutil.NativeEndian.PutUint32
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{
			SourceRegister: 1, DestRegister: 1, Len: 4, Mask: bits(expr.CtStateBitINVALID | expr.CtStateBitUNTRACKED), Xor: bits(0),
		},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: bits(0)},
	}
}

func setMark() []expr.Any {
	bits := binaryutil.NativeEndian.PutUint32
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: bits(^uint32(mark)), Xor: bits(mark)},
		&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: 1},
	}
}

func drop() []expr.Any { return []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}} }
