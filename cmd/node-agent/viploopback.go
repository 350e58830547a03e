package main

import (
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// addToLoopback has the machine answer at the address, which it may have already.
func addToLoopback(address netip.Addr) error {
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		p := netip.PrefixFrom(address, address.BitLen())
		only, _ := netlink.ParseAddr(p.String()) // it is one
		err = netlink.AddrReplace(lo, only)
	}
	if err != nil {
		return fmt.Errorf("put %s on lo: %w", address, err)
	}
	return nil
}

// removeFromLoopback ends that, where it was so.
func removeFromLoopback(address netip.Addr) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("take %s from lo: %w", address, err)
	}
	addresses, err := netlink.AddrList(lo, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("take %s from lo: %w", address, err)
	}
	for _, a := range addresses {
		if there, ok := netip.AddrFromSlice(a.IP); ok && there.Unmap() == address {
			if err := netlink.AddrDel(lo, &a); err != nil {
				return fmt.Errorf("take %s from lo: %w", address, err)
			}
		}
	}
	return nil
}
