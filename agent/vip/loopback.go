package vip

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/provider/changes"
)

// keepInterval is that of looks whether lo still has the address: `ip address flush dev lo` and programs that configure
// interfaces take it away.
const keepInterval = time.Second

// keepOnLoopback calls place each second until ctx is done.
func keepOnLoopback(ctx context.Context, place func()) {
	for changes.Sleep(ctx, keepInterval); ctx.Err() == nil; changes.Sleep(ctx, keepInterval) {
		place()
	}
}

// addToLoopback has the machine answer at the address, which it may have already.
func addToLoopback(address netip.Addr) error {
	lo, there, err := onLo(address)
	if err == nil && len(there) == 0 {
		p := netip.PrefixFrom(address, address.BitLen())
		only, _ := netlink.ParseAddr(p.String()) // it is one
		klog.InfoS("Putting the control plane's address on lo", "address", address)
		err = netlink.AddrReplace(lo, only)
	}
	if err != nil {
		return fmt.Errorf("put %s on lo: %w", address, err)
	}
	return nil
}

// removeFromLoopback ends that, where it was so.
func removeFromLoopback(address netip.Addr) error {
	lo, there, err := onLo(address)
	for i := range there {
		if err == nil {
			klog.InfoS("Taking the control plane's address from lo", "address", address)
			err = netlink.AddrDel(lo, &there[i])
		}
	}
	if err != nil {
		return fmt.Errorf("take %s from lo: %w", address, err)
	}
	return nil
}

// onLo finds the address on lo: with several prefix lengths, may be.
func onLo(address netip.Addr) (lo netlink.Link, there []netlink.Addr, err error) {
	if lo, err = netlink.LinkByName("lo"); err != nil {
		return nil, nil, err
	}
	addresses, err := netlink.AddrList(lo, netlink.FAMILY_ALL)
	for _, a := range addresses {
		if found, ok := netip.AddrFromSlice(a.IP); ok && found.Unmap() == address {
			there = append(there, a)
		}
	}
	return lo, there, err
}
