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
	// tableName is that of two tables, of families ip and ip6, which are ours alone: they are rewritten as a whole. nft has to be able to read
	// them, or ends for every command: nft 1.0.6 (Debian 12) cannot read a set of `ct original saddr`.
	tableName = "ccmadm-egress"
	// mark is set on packets that leave the cluster by another Node, and on connections to destinations outside that pods of the plan have
	// begun. No other bit of a mark is touched: kube-proxy has 0x4000 and 0x8000, Calico 0xffff0000, Cilium 0xf00.
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
	ways    *nftables.Set // pairs: pod of this Node, and the next hop of its packets
	owned   *nftables.Set // addresses of Services that this Node owns
	all     *nftables.Set // all addresses of Services
}

// bothTables are both.
func bothTables() []*nftables.Table {
	var list []*nftables.Table
	for _, f := range netfilter.Families() {
		list = append(list, &nftables.Table{Name: tableName, Family: f.Table})
	}
	return list
}

// hasTables reports whether all of the tables are there, and whether any is.
func (k *Kernel) hasTables() (all, any bool, err error) {
	all = true
	for _, table := range bothTables() {
		there, err := netfilter.HasTable(k.namespace, table)
		if err != nil {
			return false, false, err
		}
		all, any = all && there, any || there
	}
	return all, any, nil
}

// removeTables removes those that are there.
func (k *Kernel) removeTables() error {
	var errs []error
	for _, table := range bothTables() {
		errs = append(errs, netfilter.RemoveTable(k.namespace, table))
	}
	return errors.Join(errs...)
}

// writeTables replaces them in one transaction.
func (k *Kernel) writeTables(s state) error {
	conn, err := netfilter.Open(k.namespace)
	if err != nil {
		return err
	}
	for _, f := range netfilter.Families() {
		table := netfilter.Replaced(conn, &nftables.Table{Name: tableName, Family: f.Table})
		chain := func(name string, kind nftables.ChainType, hook *nftables.ChainHook, priority nftables.ChainPriority) *nftables.Chain {
			return conn.AddChain(&nftables.Chain{Name: name, Table: table, Type: kind, Hooknum: hook, Priority: &priority})
		}
		prerouting := chain("prerouting", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, afterDNAT)
		translate := chain("translate", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, beforeMasquerade)
		verify := chain("verify", nftables.ChainTypeFilter, nftables.ChainHookPostrouting, last)
		sets, err := addSets(conn, table, f, s)
		if err != nil {
			return err
		}
		add := func(to *nftables.Chain, parts ...[]expr.Any) {
			conn.AddRule(&nftables.Rule{Table: table, Chain: to, Exprs: slices.Concat(parts...)})
		}
		add(prerouting, original(), sets.from(sets.pods), sets.out(), setConnectionMark())
		add(prerouting, original(), sets.from(sets.here), sets.out(), setMark())
		add(translate, sets.out(), sets.translate())
		// What connection tracking does not know is not translated.
		add(verify, sets.from(sets.pods), sets.out(), invalid(), drop())
		began := slices.Concat(original(), hasConnectionMark(), sets.out())
		add(verify, began, sets.from(sets.owned), accept())
		add(verify, began, sets.byWay(), accept())
		add(verify, began, drop())
		// An answer that arrives before the pod's next packet, after a failover, would be taken for a connection of its own, and the port of
		// the pod's connection for one in use.
		add(verify, forwarded(), sets.toService(), sets.fromOutside(), drop())
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("write tables %s of nftables: %w", tableName, err)
	}
	return nil
}

// podsInTables are those of which the tables in the kernel speak, if they are there.
func (k *Kernel) podsInTables() ([]netip.Addr, error) {
	_, any, err := k.hasTables()
	if err != nil || !any {
		return nil, err
	}
	conn, err := netfilter.Open(k.namespace)
	if err != nil {
		return nil, err
	}
	var list []netip.Addr
	for _, f := range netfilter.Families() {
		elements, err := conn.GetSetElements(&nftables.Set{Table: &nftables.Table{Name: tableName, Family: f.Table}, Name: "pods", KeyType: f.KeyType})
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read tables %s of nftables: %w", tableName, err)
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
		return &nftables.Set{Table: table, Name: name, KeyType: key}
	}
	all := sets{
		Family: f, cluster: set("cluster", f.KeyType), pods: set("pods", f.KeyType), here: set("here", f.KeyType),
		sources: set("sources", f.KeyType), ways: set("ways", pair), owned: set("owned", f.KeyType), all: set("services", f.KeyType),
	}
	all.cluster.Interval = true
	all.sources.IsMap, all.sources.DataType = true, f.KeyType
	all.ways.Concatenation = true
	elements := map[*nftables.Set][]nftables.SetElement{
		all.cluster: netfilter.Ranges(f.Of(append(unused(), s.Cluster...))),
	}
	add := func(to *nftables.Set, e nftables.SetElement) { elements[to] = append(elements[to], e) }
	known := map[netip.Addr]bool{}
	for _, p := range s.Pods {
		if p.IP.BitLen() != f.Bits {
			continue
		}
		if service := p.Address.AsSlice(); !known[p.Address] {
			known[p.Address] = true
			add(all.all, nftables.SetElement{Key: service})
			if p.Owned {
				add(all.owned, nftables.SetElement{Key: service})
			}
		}
		ip := p.IP.AsSlice()
		add(all.pods, nftables.SetElement{Key: ip})
		if source := p.source(); source.IsValid() {
			add(all.sources, nftables.SetElement{Key: ip, Val: source.AsSlice()})
		}
		if p.Here && !p.Owned {
			add(all.here, nftables.SetElement{Key: ip})
			add(all.ways, nftables.SetElement{Key: slices.Concat(ip, p.Address.AsSlice())})
		}
	}
	for _, s := range []*nftables.Set{all.cluster, all.pods, all.here, all.sources, all.ways, all.owned, all.all} {
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
	return []expr.Any{s.LoadDestination(1), &expr.Lookup{SourceRegister: 1, SetName: s.all.Name, SetID: s.all.ID}}
}

func (s sets) fromOutside() []expr.Any {
	return []expr.Any{s.LoadSource(1), &expr.Lookup{SourceRegister: 1, SetName: s.cluster.Name, SetID: s.cluster.ID, Invert: true}}
}

// translate gives a packet the source that it has to have.
func (s sets) translate() []expr.Any {
	return []expr.Any{
		s.LoadSource(1),
		&expr.Lookup{SourceRegister: 1, DestRegister: 1, IsDestRegSet: true, SetName: s.sources.Name, SetID: s.sources.ID},
		&expr.NAT{Type: expr.NATTypeSourceNAT, Family: uint32(s.Protocol), RegAddrMin: 1},
	}
}

// byWay matches packets of pods with their own source that go to the owner.
func (s sets) byWay() []expr.Any {
	nextHop := expr.RtNexthop4
	if s.Bits == 128 {
		nextHop = expr.RtNexthop6
	}
	return []expr.Any{
		s.LoadSource(1), &expr.Rt{Register: s.second(), Key: nextHop},
		&expr.Lookup{SourceRegister: 1, SetName: s.ways.Name, SetID: s.ways.ID},
	}
}

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
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1}, withMark(), &expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: 1},
	}
}

// setConnectionMark and hasConnectionMark are for all packets of a connection, whatever has become of their source.
func setConnectionMark() []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeyMARK, Register: 1}, withMark(), &expr.Ct{Key: expr.CtKeyMARK, SourceRegister: true, Register: 1},
	}
}

func hasConnectionMark() []expr.Any {
	bits := binaryutil.NativeEndian.PutUint32
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeyMARK, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: bits(mark), Xor: bits(0)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: bits(0)},
	}
}

func withMark() expr.Any {
	bits := binaryutil.NativeEndian.PutUint32
	return &expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: bits(^uint32(mark)), Xor: bits(mark)}
}

func accept() []expr.Any { return []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}} }

func drop() []expr.Any { return []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}} }
