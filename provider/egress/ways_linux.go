package egress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/dump"
)

const (
	// priority is that of our rules: before the main table's, 32766, and after the rules of network add-ons.
	priority = 1580
	// firstTable and tables are the numbers of our routing tables, one for each address.
	firstTable, tables = 1_580_000, 65_536
)

// way is a routing table with the next hop to an address.
type way struct {
	table   int
	address netip.Addr
	link    int
	route   netlink.Route
}

// there is what the kernel has of ours.
type there struct {
	rules []netlink.Rule
	ways  []way
}

// look lists it.
func (k *Kernel) look() (t there, err error) {
	if t.rules, err = k.rules(); err == nil {
		t.ways, err = k.ways()
	}
	return t, err
}

// addWays adds what is missing: for each address a table, and for each pod of this Node a rule, that sends marked packets there. It returns
// the table of each pod. A pod is left out whose Node has no interface to the address: the tables of nftables drop its packets.
func (k *Kernel) addWays(t there, s state) (wanted map[netip.Addr]int, err error) {
	tableBefore := map[netip.Addr]int{} // by pod
	for _, r := range t.rules {
		tableBefore[hostOf(r.Src)] = r.Table
	}
	ways := t.ways
	var errs []error
	wanted = map[netip.Addr]int{}
	tableOf := map[netip.Addr]int{} // by address of a Service
	for _, p := range s.Pods {
		if !p.Here || p.Owned || p.Interface == "" {
			continue
		}
		if _, known := tableOf[p.Address]; !known {
			if tableOf[p.Address], err = k.addWay(&ways, p); err != nil {
				errs = append(errs, fmt.Errorf("add a route to %s for packets of pods: %w", p.Address, err))
			}
		}
		table := tableOf[p.Address]
		if table == 0 {
			continue
		}
		wanted[p.IP] = table
		if tableBefore[p.IP] == table {
			continue
		}
		if err := k.handle.RuleAdd(ruleFor(p.IP, table)); err != nil && !errors.Is(err, unix.EEXIST) {
			errs = append(errs, fmt.Errorf("add routing rule for pod %s: %w", p.IP, err))
		}
	}
	return wanted, errors.Join(errs...)
}

// addWay finds or makes the table of an address; 0: there is none.
func (k *Kernel) addWay(ways *[]way, p podState) (int, error) {
	link, err := k.handle.LinkByName(p.Interface)
	if err != nil {
		return 0, fmt.Errorf("find interface %s: %w", p.Interface, err)
	}
	used := map[int]bool{}
	for _, w := range *ways {
		if w.address == p.Address && w.link == link.Attrs().Index {
			return w.table, nil
		}
		used[w.table] = true
	}
	table := firstTable
	for used[table] {
		if table++; table == firstTable+tables {
			return 0, errors.New("all routing tables are in use")
		}
	}
	route := netlink.Route{
		Table: table, Dst: everything(p.Address), LinkIndex: link.Attrs().Index, Gw: p.Address.AsSlice(), Flags: int(netlink.FLAG_ONLINK),
		Protocol: v1alpha1.RouteProtocol,
	}
	if err := k.handle.RouteReplace(&route); err != nil {
		return 0, err
	}
	*ways = append(*ways, way{table: table, address: p.Address, link: route.LinkIndex, route: route})
	return table, nil
}

// removeWays removes all rules that were there and are not wanted, and tables to which none leads.
func (k *Kernel) removeWays(t there, wanted map[netip.Addr]int) error {
	var errs []error
	used := map[int]bool{}
	for _, table := range wanted {
		used[table] = true
	}
	for _, r := range t.rules {
		if table, is := wanted[hostOf(r.Src)]; is && table == r.Table {
			continue
		}
		if err := k.handle.RuleDel(&r); err != nil && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("remove routing rule from %s: %w", r.Src, err))
		}
	}
	for _, w := range t.ways {
		if used[w.table] {
			continue
		}
		if err := k.handle.RouteDel(&w.route); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("remove route of table %d: %w", w.table, err))
		}
	}
	return errors.Join(errs...)
}

// rules are ours, of both families.
func (k *Kernel) rules() ([]netlink.Rule, error) {
	found, err := dump.Whole(func() ([]netlink.Rule, error) { return k.handle.RuleList(netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("list routing rules: %w", err)
	}
	var ours []netlink.Rule
	for _, r := range found {
		if r.Priority == priority && r.Protocol == v1alpha1.RouteProtocol {
			ours = append(ours, r)
		}
	}
	return ours, nil
}

// ways are our routing tables.
func (k *Kernel) ways() ([]way, error) {
	found, err := k.routes()
	if err != nil {
		return nil, err
	}
	var ours []way
	for _, r := range found {
		if r.Table < firstTable || r.Table >= firstTable+tables || r.Protocol != v1alpha1.RouteProtocol {
			continue
		}
		gateway, _ := netip.AddrFromSlice(r.Gw)
		ours = append(ours, way{table: r.Table, address: gateway.Unmap(), link: r.LinkIndex, route: r})
	}
	return ours, nil
}

// routes are those of all tables.
func (k *Kernel) routes() ([]netlink.Route, error) {
	found, err := dump.Whole(func() ([]netlink.Route, error) {
		return k.handle.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return nil, fmt.Errorf("list the kernel's routes: %w", err)
	}
	return found, nil
}

// ruleFor sends marked packets of a pod to a table.
func ruleFor(pod netip.Addr, table int) *netlink.Rule {
	r := netlink.NewRule()
	r.Family, r.Priority, r.Table, r.Protocol = netlink.FAMILY_V4, priority, table, v1alpha1.RouteProtocol
	if pod.Is6() {
		r.Family = netlink.FAMILY_V6
	}
	r.Src = &net.IPNet{IP: pod.AsSlice(), Mask: net.CIDRMask(pod.BitLen(), pod.BitLen())}
	mask := uint32(mark)
	r.Mark, r.Mask = mark, &mask
	return r
}

// hostOf is the one address of a network, or invalid.
func hostOf(n *net.IPNet) netip.Addr {
	if p, ok := prefixOf(n); ok && p.IsSingleIP() {
		return p.Addr()
	}
	return netip.Addr{}
}

func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	ip, ok := netip.AddrFromSlice(n.IP)
	bits, size := n.Mask.Size()
	if ip = ip.Unmap(); !ok || size != ip.BitLen() {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(ip, bits), true
}

// everything is the default route's destination of a family.
func everything(of netip.Addr) *net.IPNet {
	return &net.IPNet{IP: make(net.IP, len(of.AsSlice())), Mask: net.CIDRMask(0, of.BitLen())}
}
