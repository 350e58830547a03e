package relay

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/ccmadm/ccmadm/provider/kernel"
)

// redirect is what the table does: connections to one of From go to To, of the same family.
type redirect struct {
	To   netip.AddrPort
	From []netip.AddrPort
}

// priority is before that of kube-proxy and of others who translate destinations (-100), and behind connection
// tracking.
const priority = nftables.ChainPriority(-110)

// writeTable lets the kernel redirect as they say, also what this machine sends, and nothing else. The destination is
// an address of the machine by name: nft's "redirect" takes that of the interface which a packet came in by, and those
// of pods often have none.
func writeTable(namespace netns.NsHandle, redirects []redirect) error {
	return kernel.Replace(namespace, kernel.ProxyTable, func(conn *nftables.Conn, table *nftables.Table) error {
		var chains []*nftables.Chain
		for name, hook := range map[string]*nftables.ChainHook{
			"prerouting": nftables.ChainHookPrerouting, "output": nftables.ChainHookOutput,
		} {
			chains = append(chains, conn.AddChain(&nftables.Chain{
				Name: name, Table: table, Type: nftables.ChainTypeNAT, Hooknum: hook, Priority: new(priority),
			}))
		}
		for _, r := range redirects {
			set, err := r.set(conn, table)
			if err != nil {
				return err
			}
			for _, chain := range chains {
				conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: r.rule(set)})
			}
		}
		return nil
	})
}

// set has the pairs of address and port that are redirected.
func (r redirect) set(conn *nftables.Conn, table *nftables.Table) (*nftables.Set, error) {
	name, address := "ip", nftables.TypeIPAddr
	if r.To.Addr().Is6() {
		name, address = "ip6", nftables.TypeIP6Addr
	}
	pair, err := nftables.ConcatSetType(address, nftables.TypeInetService)
	if err != nil {
		return nil, fmt.Errorf("render set %s: %w", name, err)
	}
	set := &nftables.Set{Table: table, Name: "addresses-" + name, KeyType: pair, Concatenation: true}
	var elements []nftables.SetElement
	for _, from := range r.From {
		key := binary.BigEndian.AppendUint16(from.Addr().AsSlice(), from.Port())
		elements = append(elements, nftables.SetElement{Key: append(key, 0, 0)}) // each part fills words of four bytes
	}
	return set, kernel.AddSet(conn, set, elements)
}

// rule is: TCP to one of the set, to To.
func (r redirect) rule(set *nftables.Set) []expr.Any {
	// Registers of four bytes: an address takes one or four, and its port is in the next.
	const first = unix.NFT_REG32_00
	protocol, offset, size := byte(unix.NFPROTO_IPV4), uint32(16), uint32(4)
	if r.To.Addr().Is6() {
		protocol, offset, size = unix.NFPROTO_IPV6, 24, 16
	}
	port := first + size/4
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: first},
		&expr.Cmp{Op: expr.CmpOpEq, Register: first, Data: []byte{protocol}},
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: first},
		&expr.Cmp{Op: expr.CmpOpEq, Register: first, Data: []byte{unix.IPPROTO_TCP}},
		&expr.Payload{DestRegister: first, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size},
		&expr.Payload{DestRegister: port, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Lookup{SourceRegister: first, SetName: set.Name, SetID: set.ID},
		&expr.Immediate{Register: first, Data: r.To.Addr().AsSlice()},
		&expr.Immediate{Register: port, Data: binary.BigEndian.AppendUint16(nil, r.To.Port())},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(protocol), RegAddrMin: first, RegProtoMin: port, Specified: true},
	}
}

// originalDestination is where a client connected to, before the kernel redirected it.
func originalDestination(conn *net.TCPConn, ipv6 bool) (netip.AddrPort, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return netip.AddrPort{}, err
	}
	var to netip.AddrPort
	var failed error
	err = raw.Control(func(fd uintptr) {
		if ipv6 {
			var info *unix.IPv6MTUInfo // begins with a sockaddr_in6, which is all that the kernel writes
			if info, failed = unix.GetsockoptIPv6MTUInfo(int(fd), unix.IPPROTO_IPV6, unix.SO_ORIGINAL_DST); failed == nil {
				to = netip.AddrPortFrom(netip.AddrFrom16(info.Addr.Addr), networkOrder(info.Addr.Port))
			}
			return
		}
		var request *unix.IPv6Mreq // as large as a sockaddr_in
		if request, failed = unix.GetsockoptIPv6Mreq(int(fd), unix.IPPROTO_IP, unix.SO_ORIGINAL_DST); failed == nil {
			m := request.Multiaddr // family, port and address
			to = netip.AddrPortFrom(netip.AddrFrom4([4]byte(m[4:8])), binary.BigEndian.Uint16(m[2:4]))
		}
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("ask where a connection was going to: %w", err)
	}
	return to, nil
}

// networkOrder reads a port that is in memory as it is on the wire.
func networkOrder(port uint16) uint16 {
	return binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, port))
}
