package vip

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

// apart makes machines in a namespace of the test's own, and a client.
func apart(t *testing.T, n int) (map[string]*cp, *asker) {
	t.Helper()
	ownNamespace(t)
	return site(t, n), newAsker(t, "client")
}

// ownNamespace is a network namespace that ends with the test.
func ownNamespace(t *testing.T) {
	t.Helper()
	manifeststest.NeedRoot(t)
	runtime.LockOSThread() // never unlocked: the thread ends with the test, and its namespace with it
	_, err := netns.New()
	must(t, err)
}

// site makes machines on a bridge in the present namespace, and a client there.
func site(t *testing.T, n int) map[string]*cp {
	t.Helper()
	machines := wire(t, n)
	for _, c := range machines {
		c.startVIP(t, n)
	}
	return machines
}

// wire makes machines with API servers only.
func wire(t *testing.T, n int) map[string]*cp {
	t.Helper()
	dir := t.TempDir()
	writeSite(t, dir)
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br"}}
	must(t, netlink.LinkAdd(bridge))
	must(t, netlink.LinkSetUp(bridge))
	plug(t, bridge, "client", "192.0.2.1/24", nil)
	root, err := netns.Get()
	must(t, err)
	machines := map[string]*cp{}
	for i := range n {
		c := &cp{name: fmt.Sprintf("cp%d", i+1), host: 11 + i, dir: dir, hears: "192.0.2."}
		c.ifi = c.name
		c.ns, err = netns.New()
		must(t, err)
		must(t, os.WriteFile("/proc/sys/net/ipv4/conf/all/arp_ignore", []byte("1"), 0))
		must(t, netns.Set(root))
		c.mac = plug(t, bridge, c.name, fmt.Sprintf("192.0.2.%d/24", c.host), &c.ns)
		c.startAPI(t)
		machines[c.mac] = c
	}
	return machines
}

func (c *cp) startAPI(t *testing.T) {
	t.Helper()
	c.api = c.start(t, "api", c.dir+"/ca.crt", c.dir+"/ca.key", c.late())
}

// late is the file which the API server of the machine answers with an error for, as one whose etcd is late.
func (c *cp) late() string { return filepath.Join(c.dir, c.name+".late") }

// startVIP starts the program, which knows the first n machines.
func (c *cp) startVIP(t *testing.T, n int) {
	t.Helper()
	var hosts []int
	for i := range n {
		hosts = append(hosts, i+1)
	}
	c.startVIPOf(t, hosts...)
}

// startVIPOf starts the program, which knows these machines.
func (c *cp) startVIPOf(t *testing.T, hosts ...int) {
	t.Helper()
	var members []string
	for _, host := range hosts {
		members = append(members, fmt.Sprintf(`{"name":"cp%d","address":"%s%d"}`, host, c.hears, 10+host))
	}
	file := filepath.Join(c.dir, c.name+".json")
	must(t, os.WriteFile(file, []byte("["+strings.Join(members, ",")+"]"), 0o600))
	c.run(t, Options{
		NodeAddress: addr(fmt.Sprintf("%s%d", c.hears, c.host)), Address: addr("192.0.2.10"), Interface: c.ifi,
		MembersFile: file, SecretFile: c.dir + "/ca.key", Kubeconfig: c.dir + "/none", HeartbeatPort: v1alpha1.VIPHeartbeatPort,
	})
}

func writeSite(t *testing.T, dir string) {
	t.Helper()
	certificate, der := apiServerCertificate(t)
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	must(t, err)
	for name, data := range map[string][]byte{
		"ca.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		"ca.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
}

// plug connects a namespace to the bridge, and returns the MAC of its end.
func plug(t *testing.T, bridge netlink.Link, name, address string, ns *netns.NsHandle) string {
	t.Helper()
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: "p-" + name}))
	port, err := netlink.LinkByName("p-" + name)
	must(t, err)
	must(t, netlink.LinkSetMaster(port, bridge))
	must(t, netlink.LinkSetUp(port))
	end, err := netlink.LinkByName(name)
	must(t, err)
	inside, err := netlink.NewHandle()
	must(t, err)
	if ns != nil {
		must(t, netlink.LinkSetNsFd(end, int(*ns)))
		inside, err = netlink.NewHandleAt(*ns)
		must(t, err)
	}
	defer inside.Close()
	for _, up := range []string{"lo", name} {
		link, err := inside.LinkByName(up)
		must(t, err)
		must(t, inside.LinkSetUp(link))
	}
	end, err = inside.LinkByName(name)
	must(t, err)
	a, err := netlink.ParseAddr(address)
	must(t, err)
	must(t, inside.AddrAdd(end, a))
	return end.Attrs().HardwareAddr.String()
}

// down cuts the machine's cable.
func (c *cp) down(t *testing.T) {
	t.Helper()
	must(t, netlink.LinkSetDown(c.port(t)))
}

func (c *cp) up(t *testing.T) {
	t.Helper()
	must(t, netlink.LinkSetUp(c.port(t)))
}

func (c *cp) port(t *testing.T) netlink.Link {
	t.Helper()
	port, err := netlink.LinkByName("p-" + c.name)
	must(t, err)
	return port
}

func onLoopback(t *testing.T, c *cp) bool {
	t.Helper()
	return c.has(t, "192.0.2.10")
}

// has says whether an address is on the machine's lo.
func (c *cp) has(t *testing.T, address string) bool {
	t.Helper()
	inside, err := netlink.NewHandleAt(c.ns)
	must(t, err)
	defer inside.Close()
	lo, err := inside.LinkByName("lo")
	must(t, err)
	list, err := inside.AddrList(lo, netlink.FAMILY_V4)
	must(t, err)
	for _, a := range list {
		if a.IP.String() == address {
			return true
		}
	}
	return false
}
