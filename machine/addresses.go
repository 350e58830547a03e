package machine

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// AdvertiseAddress is kubeadm's choice: what was configured, else the address of the default route's interface. kubeadm
// takes an address that stands for all of them for none.
func (m *Machine) AdvertiseAddress(configured string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(configured)
	if err != nil || addr.IsUnspecified() || addr.IsLoopback() {
		if addr, err = m.DefaultAddress(); err != nil {
			return netip.Addr{}, fmt.Errorf("find this machine's address: %w", err)
		}
	}
	return addr.Unmap(), m.CheckLocal([]netip.Addr{addr.Unmap()})
}

func defaultAddress() (netip.Addr, error) {
	ip, err := utilnet.ChooseHostInterface()
	addr, _ := netip.AddrFromSlice(ip)
	return addr.Unmap(), err
}

// SourceAddress asks the routing table, without sending a packet, which address traffic to the API server has.
func (m *Machine) SourceAddress(ctx context.Context, server string) (netip.Addr, error) {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	conn, err := dialer.DialContext(ctx, "udp", server)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find the route to the API server %s: %w", server, err)
	}
	defer conn.Close() //nolint:errcheck // nothing was sent
	addr := conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
	if addr.IsLoopback() { // a load balancer on each machine, which says nothing about the network behind it
		return m.AdvertiseAddress("")
	}
	return addr.WithZone(""), nil
}

// OtherFamily finds a global address of the other family on the interface that has ip.
func (m *Machine) OtherFamily(ip netip.Addr) (netip.Addr, error) {
	byInterface, err := m.Interfaces()
	if err != nil {
		return netip.Addr{}, err
	}
	for _, addrs := range byInterface {
		if !slices.Contains(addrs, ip) {
			continue
		}
		for _, other := range addrs {
			if other.Is4() != ip.Is4() && other.IsGlobalUnicast() {
				return other, nil
			}
		}
	}
	return netip.Addr{}, fmt.Errorf("choose --node-ip: the cluster is dual-stack, and the interface that has %s has no address of the other family", ip)
}

// AddressIn returns the first address in the prefix that is not the other one, which moves between machines; the zero one: there is
// none.
func (m *Machine) AddressIn(prefix netip.Prefix, moves netip.Addr) (netip.Addr, error) {
	addrs, err := m.addresses()
	if err != nil {
		return netip.Addr{}, err
	}
	for _, addr := range addrs {
		if prefix.Contains(addr) && addr != moves {
			return addr, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("choose --node-ip: no address of this machine is in %s (it has %s)", prefix, JoinAddresses(addrs, ", "))
}

// CheckLocal refuses an address that no interface has: the kubelet would say so only in its journal, over and over.
func (m *Machine) CheckLocal(wanted []netip.Addr) error {
	addrs, err := m.addresses()
	if err != nil {
		return err
	}
	for _, addr := range wanted {
		if !slices.Contains(addrs, addr) {
			return fmt.Errorf("node IP %s is not an address of this machine (it has %s)", addr, JoinAddresses(addrs, ", "))
		}
	}
	return nil
}

func (m *Machine) addresses() ([]netip.Addr, error) {
	byInterface, err := m.Interfaces()
	return slices.Concat(byInterface...), err
}

func interfaceAddresses() ([][]netip.Addr, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	return usableAddresses(interfaces, (*net.Interface).Addrs)
}

// usableAddresses lists those of interfaces. Loopback and link-local ones are no use to others. Lo comes last: programs put addresses
// there that move, but it has the only address of a machine that tells its routers of it.
func usableAddresses(interfaces []net.Interface, of func(*net.Interface) ([]net.Addr, error)) ([][]netip.Addr, error) {
	var all, loopback [][]netip.Addr
	for _, i := range interfaces {
		nets, err := of(&i)
		if err != nil {
			return nil, fmt.Errorf("list addresses of %s: %w", i.Name, err)
		}
		var addrs []netip.Addr
		for _, n := range nets {
			prefix, err := netip.ParsePrefix(n.String())
			if err == nil && !prefix.Addr().IsLoopback() && !prefix.Addr().IsLinkLocalUnicast() {
				addrs = append(addrs, prefix.Addr().Unmap())
			}
		}
		if i.Flags&net.FlagLoopback != 0 {
			loopback = append(loopback, addrs)
		} else {
			all = append(all, addrs)
		}
	}
	return append(all, loopback...), nil
}

// JoinAddresses is a list as text; "none" where it is empty.
func JoinAddresses(addrs []netip.Addr, separator string) string {
	if len(addrs) == 0 {
		return "none"
	}
	var s []string
	for _, addr := range addrs {
		s = append(s, addr.String())
	}
	return strings.Join(s, separator)
}
