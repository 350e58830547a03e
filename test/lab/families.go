//go:build linux

package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// The IP families of a lab's machines, and of the clusters that their /etc/lab/kubeadm.yaml describes.
const (
	ipv4 = "ipv4"
	ipv6 = "ipv6"
	dual = "dual"
)

func checkFamily(name string) error {
	switch name {
	case ipv4, ipv6, dual:
		return nil
	}
	return fmt.Errorf("IP family %q: want %s, %s or %s", name, ipv4, ipv6, dual)
}

// subnet6 is the lab's part of 2001:2::/48, the range that RFC 5180 reserves for benchmarks.
func (l lab) subnet6() netip.Prefix {
	a := l.subnet().Addr().As4()
	return netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0x20, 1: 0x01, 3: 0x02, 6: a[1] - 18, 7: a[2]}), 64)
}

// host6 is host in the other family.
func (l lab) host6(n int) netip.Addr {
	a := l.subnet6().Addr().As16()
	a[15] = byte(n)
	return netip.AddrFrom16(a)
}

// addresses are those of a host, with the length of their networks; kubeadm takes the first for its own.
func (l lab) addresses(s settings, n int) []netip.Prefix {
	four := netip.PrefixFrom(l.host(n), l.subnet().Bits())
	six := netip.PrefixFrom(l.host6(n), l.subnet6().Bits())
	switch s.IPFamily {
	case ipv6:
		return []netip.Prefix{six}
	case dual:
		return []netip.Prefix{four, six}
	}
	return []netip.Prefix{four} // also in a lab of before there were others
}

// gateway returns the host's address in the family of another, or nothing.
func gateway(own []netip.Prefix, to netip.Addr) netip.Addr {
	for _, p := range own {
		if p.Addr().Is4() == to.Is4() {
			return p.Addr()
		}
	}
	return netip.Addr{}
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// clusterNetworks puts the networks of the lab's families into the kubeadm.yaml that all labs share.
func clusterNetworks(s settings) (string, error) {
	content, err := os.ReadFile(filepath.Join(s.Layers[0], "etc/lab/kubeadm.yaml"))
	if err != nil {
		return "", err
	}
	pods, services := []string{"10.244.0.0/16"}, []string{"10.96.0.0/16"}
	if s.IPFamily == ipv6 {
		pods, services = nil, nil
	}
	pods, services = append(pods, "fd00:10:244::/56"), append(services, "fd00:10:96::/112")
	networks := fmt.Sprintf("podSubnet: %s\n  serviceSubnet: %s", strings.Join(pods, ","), strings.Join(services, ","))
	return strings.Replace(string(content), "podSubnet: 10.244.0.0/16", networks, 1), nil
}
