package network

import (
	"net/netip"

	networkingv1 "k8s.io/api/networking/v1"
)

// addressOf is the address of a claim, which is its name.
func addressOf(c networkingv1.IPAddress) string {
	if addr, err := netip.ParseAddr(c.Name); err == nil {
		return addr.Unmap().String()
	}
	return c.Name
}

// same compares addresses, however they are written.
func same(a, b string) bool {
	x, errX := netip.ParseAddr(a)
	y, errY := netip.ParseAddr(b)
	return errX == nil && errY == nil && x == y || a == b
}

// contains reports whether the subnet of an interface's address, like 192.0.2.1/24, holds another address.
func contains(subnet, address string) bool {
	p, err := netip.ParsePrefix(subnet)
	if err != nil {
		return false
	}
	a, err := netip.ParseAddr(address)
	return err == nil && p.Masked().Contains(a)
}
