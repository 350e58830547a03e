package main

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// site makes machines on a bridge in the present namespace, and a client there.
func site(t *testing.T, n int) map[string]*cp {
	t.Helper()
	dir := t.TempDir()
	writeSite(t, dir, n)
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br"}}
	must(t, netlink.LinkAdd(bridge))
	must(t, netlink.LinkSetUp(bridge))
	plug(t, bridge, "client", "192.0.2.1/24", nil)
	root, err := netns.Get()
	must(t, err)
	machines := map[string]*cp{}
	for i := range n {
		c := &cp{name: fmt.Sprintf("cp%d", i+1)}
		c.ns, err = netns.New()
		must(t, err)
		must(t, os.WriteFile("/proc/sys/net/ipv4/conf/all/arp_ignore", []byte("1"), 0))
		must(t, netns.Set(root))
		c.mac = plug(t, bridge, c.name, fmt.Sprintf("192.0.2.%d/24", 11+i), &c.ns)
		c.api = c.start(t, "api", dir+"/ca.crt", dir+"/ca.key")
		members := filepath.Join(dir, c.name+".json")
		data, err := os.ReadFile(dir + "/members.json")
		must(t, err)
		must(t, os.WriteFile(members, data, 0o600))
		c.vip = c.start(t, "vip", "vip", "--node-name="+c.name, fmt.Sprintf("--node-address=192.0.2.%d", 11+i), "--vip=192.0.2.10",
			"--interface="+c.name, "--members-file="+members, "--ca-file="+dir+"/ca.crt", "--secret-file="+dir+"/ca.key",
			"--kubeconfig="+dir+"/none")
		machines[c.mac] = c
	}
	t.Setenv("VIP_DIR", dir)
	return machines
}

func writeSite(t *testing.T, dir string, n int) {
	t.Helper()
	certificate, der := apiServerCertificate(t)
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	must(t, err)
	var members []string
	for i := range n {
		members = append(members, fmt.Sprintf(`{"name":"cp%d","address":"192.0.2.%d"}`, i+1, 11+i))
	}
	for name, data := range map[string][]byte{
		"ca.crt":       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		"ca.key":       pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		"members.json": []byte("[" + strings.Join(members, ",") + "]"),
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
	port, err := netlink.LinkByName("p-" + c.name)
	must(t, err)
	must(t, netlink.LinkSetDown(port))
}

func onLoopback(t *testing.T, c *cp) bool {
	t.Helper()
	inside, err := netlink.NewHandleAt(c.ns)
	must(t, err)
	defer inside.Close()
	lo, err := inside.LinkByName("lo")
	must(t, err)
	list, err := inside.AddrList(lo, netlink.FAMILY_V4)
	must(t, err)
	for _, a := range list {
		if a.IP.String() == "192.0.2.10" {
			return true
		}
	}
	return false
}
