package vip

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/provider/changes"
	"github.com/ccmadm/ccmadm/provider/dump"
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

// addToLoopback has the machine answer at the address, which it may have already: with another prefix length, may be, or missing from a list
// that changes.
func addToLoopback(address netip.Addr) error {
	lo, there, err := onLo(address)
	if len(there) > 0 {
		return nil
	}
	if lo != nil {
		err = netlink.AddrAdd(lo, only(address))
	}
	switch {
	case errors.Is(err, unix.EEXIST):
	case err != nil:
		return fmt.Errorf("put %s on lo: %w", address, err)
	default:
		klog.InfoS("Put the control plane's address on lo", "address", address)
	}
	return nil
}

// removeFromLoopback ends that, where it was so. What ccmadm puts there is removed without a list, which may lack it while others change. Other
// prefix lengths are those of another program.
func removeFromLoopback(address netip.Addr) error {
	lo, there, err := onLo(address)
	if errors.Is(err, netlink.ErrDumpInterrupted) {
		err = nil
	}
	if lo != nil {
		there = append(there, *only(address))
	}
	for i := range there {
		gone := netlink.AddrDel(lo, &there[i])
		if gone == nil {
			klog.InfoS("Removed the control plane's address from lo", "address", address)
		} else if !errors.Is(gone, unix.EADDRNOTAVAIL) {
			err = errors.Join(err, gone)
		}
	}
	if err != nil {
		return fmt.Errorf("take %s from lo: %w", address, err)
	}
	return nil
}

// only is the address without others of its network.
func only(address netip.Addr) *netlink.Addr {
	return &netlink.Addr{IPNet: netlink.NewIPNet(address.AsSlice())}
}

// onLo finds the address on lo: with several prefix lengths, may be.
func onLo(address netip.Addr) (lo netlink.Link, there []netlink.Addr, err error) {
	if lo, err = netlink.LinkByName("lo"); err != nil {
		return nil, nil, err
	}
	addresses, err := dump.Whole(func() ([]netlink.Addr, error) { return netlink.AddrList(lo, netlink.FAMILY_ALL) })
	for _, a := range addresses {
		if found, ok := netip.AddrFromSlice(a.IP); ok && found.Unmap() == address {
			there = append(there, a)
		}
	}
	return lo, there, err
}
