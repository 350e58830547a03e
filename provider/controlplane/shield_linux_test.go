package controlplane

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

// A Service has the control plane's address and port, and kube-proxy leads connections to it to a pod. On a Node with the
// shield they reach the API server: those of the Node itself and of its pods, and where the Node has the address, those of
// others. A host firewall that knows answers by their connection lets them in. Without the shield all of them are stolen.
func TestShield(t *testing.T) {
	for _, f := range []network{
		{"IPv4", "192.0.2.1", "192.0.2.2", "192.0.2.99", "10.244.0.1", "10.244.0.2", "192.0.2.10", 24},
		{"IPv6", "2001:db8::1", "2001:db8::2", "2001:db8::99", "fd00:10:244::1", "fd00:10:244::2", "2001:db8::10", 64},
	} {
		t.Run(f.name, func(t *testing.T) {
			s := newSite(t, f)
			at := netip.AddrPortFrom(netip.MustParseAddr(f.vip), 6443)
			for _, m := range []*machine{s.node, s.cp} {
				m.proxy(at, netip.AddrPortFrom(netip.MustParseAddr(f.thief), 8443))
			}
			s.node.firewall()
			from := map[string]*machine{"the Node": s.node, "a pod of the Node": s.pod, "the control plane": s.cp, "a stranger": s.thief}
			expect := func(when, want string) {
				t.Helper()
				for name, m := range from {
					if got := m.ask(at.String()); got != want {
						t.Errorf("%s: %s gets %q, want %q", when, name, got, want)
					}
				}
			}
			expect("without", "thief")
			for range 2 { // the second time it takes the place of the first
				s.node.inside(func() { must(t, Shield(at)) })
				s.cp.inside(func() { must(t, Shield(at)) })
			}
			expect("with the shield", "api")
			if got := s.node.ask(netip.AddrPortFrom(at.Addr(), 443).String()); got != "thief" {
				t.Errorf("another port of the address is changed, too: %q", got)
			}
			for _, m := range []*machine{s.node, s.cp} {
				for range 2 {
					m.inside(func() { must(t, Unshield()) })
				}
				m.inside(func() {
					if there, err := Shielded(); there || err != nil {
						t.Errorf("the table is there after its removal: %v", err)
					}
				})
			}
			expect("removed", "thief")
		})
	}
}

// network has addresses: of a Node, of a control plane, of the thief's pod, of the Node in its network of pods, of a pod,
// and of the control planes together.
type network struct {
	name, node, cp, thief, bridge, pod, vip string
	bits                                    int
}

type site struct{ node, cp, thief, pod *machine }

// newSite has the thief in the middle, as the switch of the others.
func newSite(t *testing.T, f network) site {
	t.Helper()
	manifeststest.NeedRoot(t)
	s := site{newMachine(t), newMachine(t), newMachine(t), newMachine(t)}
	lan := func(address string) string { return fmt.Sprintf("%s/%d", address, f.bits) }
	s.thief.inside(func() {
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "lan"}}
		must(t, netlink.LinkAdd(bridge))
		for name, other := range map[string]*machine{"node": s.node, "cp": s.cp} {
			s.thief.cable(name, other, "eth0")
			port, err := netlink.LinkByName(name)
			must(t, err)
			must(t, netlink.LinkSetMaster(port, bridge))
		}
	})
	s.thief.address("lan", lan(f.thief))
	s.node.address("eth0", lan(f.node))
	s.cp.address("eth0", lan(f.cp), netip.PrefixFrom(netip.MustParseAddr(f.vip), netip.MustParseAddr(f.vip).BitLen()).String())
	s.node.inside(func() { s.node.cable("pods", s.pod, "eth0") })
	s.node.address("pods", lan(f.bridge))
	s.pod.address("eth0", lan(f.pod))
	s.pod.inside(func() {
		eth0, err := netlink.LinkByName("eth0")
		must(t, err)
		must(t, netlink.RouteAdd(&netlink.Route{LinkIndex: eth0.Attrs().Index, Gw: net.ParseIP(f.bridge)}))
	})
	for _, m := range []*machine{s.node, s.cp} {
		m.inside(func() {
			for _, name := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
				must(t, os.WriteFile("/proc/sys/net/"+name, []byte("1"), 0))
			}
		})
	}
	s.cp.serve(netip.AddrPortFrom(netip.MustParseAddr(f.vip), 6443).String(), "api")
	s.thief.serve(netip.AddrPortFrom(netip.MustParseAddr(f.thief), 8443).String(), "thief")
	return s
}

// machine is a network namespace, until the end of the test.
type machine struct {
	t         *testing.T
	namespace netns.NsHandle
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := netns.Get()
	must(t, err)
	defer func() { _ = before.Close() }()
	namespace, err := netns.New()
	must(t, err)
	must(t, netns.Set(before))
	t.Cleanup(func() { _ = namespace.Close() })
	m := &machine{t, namespace}
	m.up("lo")
	return m
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// inside calls f on a thread of the namespace.
func (m *machine) inside(f func()) {
	m.t.Helper()
	runtime.LockOSThread()
	before, err := netns.Get()
	must(m.t, err)
	must(m.t, netns.Set(m.namespace))
	defer func() {
		if netns.Set(before) == nil {
			runtime.UnlockOSThread() // else the thread ends with this goroutine
		}
		_ = before.Close()
	}()
	f()
}

func (m *machine) up(name string) {
	m.t.Helper()
	m.inside(func() {
		link, err := netlink.LinkByName(name)
		must(m.t, err)
		must(m.t, netlink.LinkSetUp(link))
	})
}

// cable is called inside.
func (m *machine) cable(name string, other *machine, otherName string) {
	m.t.Helper()
	must(m.t, netlink.LinkAdd(&netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: otherName, PeerNamespace: netlink.NsFd(other.namespace),
	}))
	m.up(name)
	other.up(otherName)
}

func (m *machine) address(name string, prefixes ...string) {
	m.t.Helper()
	m.up(name)
	m.inside(func() {
		link, err := netlink.LinkByName(name)
		must(m.t, err)
		for _, p := range prefixes {
			a, err := netlink.ParseAddr(p)
			must(m.t, err)
			a.Flags = unix.IFA_F_NODAD
			must(m.t, netlink.AddrAdd(link, a))
		}
	})
}

// serve answers every connection with a word.
func (m *machine) serve(at, word string) {
	m.t.Helper()
	var listener net.Listener
	m.inside(func() {
		var err error
		listener, err = (&net.ListenConfig{}).Listen(m.t.Context(), "tcp", at)
		must(m.t, err)
	})
	m.t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, word+"\n")
			_ = conn.Close()
		}
	}()
}

// ask returns the word of who answers, or why nobody does.
func (m *machine) ask(at string) (word string) {
	m.inside(func() {
		conn, err := (&net.Dialer{Timeout: 3 * time.Second}).DialContext(m.t.Context(), "tcp", at)
		if err != nil {
			word = err.Error()
			return
		}
		defer func() { _ = conn.Close() }()
		must(m.t, conn.SetDeadline(time.Now().Add(3*time.Second)))
		word, err = bufio.NewReader(conn).ReadString('\n')
		if err != nil {
			word = err.Error()
			return
		}
		word = word[:len(word)-1]
	})
	return word
}

// proxy adds what kube-proxy does in modes nftables and iptables, at the same places: NAT at priority -100 to the endpoint
// for every port of the address from 443 on, and masquerading of what is forwarded.
func (m *machine) proxy(service, endpoint netip.AddrPort) {
	m.t.Helper()
	m.inside(func() {
		conn, err := nftables.New()
		must(m.t, err)
		table := conn.AddTable(&nftables.Table{Name: "kube-proxy", Family: nftables.TableFamilyINet})
		for name, hook := range map[string]*nftables.ChainHook{
			"nat-prerouting": nftables.ChainHookPrerouting, "nat-output": nftables.ChainHookOutput,
		} {
			chain := conn.AddChain(&nftables.Chain{
				Name: name, Table: table, Type: nftables.ChainTypeNAT, Hooknum: hook, Priority: nftables.ChainPriorityNATDest,
			})
			exprs := toItself(service)
			exprs = append(exprs[:4:4], exprs[4:6]...) // whatever the port
			family := uint32(unix.NFPROTO_IPV4)
			if service.Addr().Is6() {
				family = unix.NFPROTO_IPV6
			}
			conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: append(exprs,
				&expr.Immediate{Register: 1, Data: endpoint.Addr().AsSlice()},
				&expr.Immediate{Register: 2, Data: binaryutil.BigEndian.PutUint16(endpoint.Port())},
				&expr.NAT{Type: expr.NATTypeDestNAT, Family: family, RegAddrMin: 1, RegProtoMin: 2, Specified: true},
			)})
		}
		chain := conn.AddChain(&nftables.Chain{
			Name: "nat-postrouting", Table: table, Type: nftables.ChainTypeNAT,
			Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource,
		})
		conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{&expr.Masq{}}})
		must(m.t, conn.Flush())
	})
}

// firewall lets in answers only, and what neighbour discovery needs.
func (m *machine) firewall() {
	m.t.Helper()
	m.inside(func() {
		conn, err := nftables.New()
		must(m.t, err)
		drop := nftables.ChainPolicyDrop
		table := conn.AddTable(&nftables.Table{Name: "firewall", Family: nftables.TableFamilyINet})
		chain := conn.AddChain(&nftables.Chain{
			Name: "input", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookInput,
			Priority: nftables.ChainPriorityFilter, Policy: &drop,
		})
		conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
			&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
			&expr.Bitwise{
				SourceRegister: 1, DestRegister: 1, Len: 4, Xor: make([]byte, 4),
				Mask: binaryutil.NativeEndian.PutUint32(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED),
			},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
			&expr.Verdict{Kind: expr.VerdictAccept},
		}})
		conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_ICMPV6}},
			&expr.Verdict{Kind: expr.VerdictAccept},
		}})
		must(m.t, conn.Flush())
	})
}
