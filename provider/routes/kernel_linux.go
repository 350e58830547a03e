package routes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/dump"
)

// Kernel is the routing of one network namespace.
type Kernel struct {
	handle    *netlink.Handle
	namespace netns.NsHandle
}

// OpenKernel reaches the kernel of a network namespace; netns.None() is the process's own.
func OpenKernel(namespace netns.NsHandle) (*Kernel, error) {
	handle, err := netlink.NewHandleAt(namespace, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open the kernel's routes: %w", err)
	}
	return &Kernel{handle: handle, namespace: namespace}, nil
}

// Close gives back the socket.
func (k *Kernel) Close() { k.handle.Close() }

// list returns the routes of the main table.
func (k *Kernel) list() ([]route, error) {
	found, err := dump.Whole(func() ([]netlink.Route, error) {
		return k.handle.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return nil, fmt.Errorf("list the kernel's routes: %w", err)
	}
	list := make([]route, 0, len(found))
	for _, f := range found {
		if r, ok := fromKernel(f); ok {
			list = append(list, r)
		}
	}
	return list, nil
}

// fromKernel leaves out what has no destination, such as MPLS.
func fromKernel(f netlink.Route) (route, bool) {
	if f.Dst == nil {
		return route{}, false
	}
	r := route{
		Link: f.LinkIndex, Metric: f.Priority, Protocol: int(f.Protocol), Unreachable: f.Type == unix.RTN_UNREACHABLE,
	}
	if r.Unreachable {
		r.Link = 0 // that of IPv6 is lo
	}
	address, ok := netip.AddrFromSlice(f.Dst.IP)
	if !ok {
		return route{}, false
	}
	ones, _ := f.Dst.Mask.Size()
	r.Destination = netip.PrefixFrom(address.Unmap(), ones)
	if via, ok := netip.AddrFromSlice(f.Gw); ok {
		r.Via = via.Unmap()
	}
	return r, true
}

func (r route) toKernel() *netlink.Route {
	address := r.Destination.Addr()
	k := &netlink.Route{
		Dst:       &net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(r.Destination.Bits(), address.BitLen())},
		Gw:        r.Via.AsSlice(),
		LinkIndex: r.Link, Priority: r.Metric, Protocol: netlink.RouteProtocol(r.Protocol), Table: unix.RT_TABLE_MAIN,
	}
	if r.Unreachable {
		k.Type = unix.RTN_UNREACHABLE
	}
	return k
}

// apply makes one change. A route is removed only if its protocol is ours at that moment, too: the kernel compares it.
func (k *Kernel) apply(c change) error {
	if !c.route.ours() {
		return fmt.Errorf("%s route to %s: its protocol is %d, want %d", c.verb, c.route.Destination, c.route.Protocol,
			v1alpha1.RouteProtocol)
	}
	var err error
	switch c.verb {
	case add:
		err = k.handle.RouteAdd(c.route.toKernel())
	case replace:
		err = k.handle.RouteReplace(c.route.toKernel())
	case remove:
		if err = k.handle.RouteDel(c.route.toKernel()); errors.Is(err, unix.ESRCH) {
			return nil // it went by itself, with its interface
		}
	}
	if err != nil {
		return fmt.Errorf("%s route to %s: %w", c.verb, c.route.Destination, err)
	}
	return nil
}

// onLink returns the interface in whose network an address is, as the kernel would send there; errNotOnLink or errNoWay
// where there is none.
func (k *Kernel) onLink(address netip.Addr) (int, error) {
	found, err := k.handle.RouteGet(address.AsSlice())
	if errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) {
		return 0, fmt.Errorf("find the way to %s: %w: %w", address, errNoWay, err)
	}
	if err != nil {
		return 0, fmt.Errorf("find the way to %s: %w", address, err)
	}
	for _, r := range found {
		if r.Gw == nil && r.Via == nil && r.Type == unix.RTN_UNICAST {
			return r.LinkIndex, nil
		}
	}
	return 0, fmt.Errorf("%s %w", address, errNotOnLink)
}

// mtu is that of the interface with an address.
func (k *Kernel) mtu(address netip.Addr) (int, error) {
	addresses, err := dump.Whole(func() ([]netlink.Addr, error) { return k.handle.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return 0, fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range addresses {
		if ip, ok := netip.AddrFromSlice(a.IP); !ok || ip.Unmap() != address {
			continue
		}
		link, err := k.handle.LinkByIndex(a.LinkIndex)
		if err != nil {
			return 0, fmt.Errorf("find the interface with %s: %w", address, err)
		}
		return link.Attrs().MTU, nil
	}
	return 0, fmt.Errorf("find the interface with %s: there is none", address)
}

// eventBuffer is the receive buffer of a subscription in bytes: a thousand routes at once fit.
const eventBuffer = 1 << 20

// watch calls changed after every change of an interface or an address, and of a route that concerns says yes to, until
// ctx is done or a subscription breaks, as it does when the kernel has had to drop events.
func (k *Kernel) watch(ctx context.Context, concerns func(route) bool, changed func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lost := func(err error) { cancel(fmt.Errorf("watch the kernel's routes: %w", err)) }
	routes := make(chan netlink.RouteUpdate)
	err := netlink.RouteSubscribeWithOptions(routes, ctx.Done(), netlink.RouteSubscribeOptions{
		Namespace: &k.namespace, ErrorCallback: lost, ReceiveBufferSize: eventBuffer, ReceiveBufferForceSize: true,
	})
	if err != nil {
		return fmt.Errorf("watch the kernel's routes: %w", err)
	}
	links := make(chan netlink.LinkUpdate)
	err = netlink.LinkSubscribeWithOptions(links, ctx.Done(), netlink.LinkSubscribeOptions{
		Namespace: &k.namespace, ErrorCallback: lost,
	})
	if err != nil {
		go drain(routes)
		return fmt.Errorf("watch the kernel's interfaces: %w", err)
	}
	addresses := make(chan netlink.AddrUpdate)
	err = netlink.AddrSubscribeWithOptions(addresses, ctx.Done(), netlink.AddrSubscribeOptions{
		Namespace: &k.namespace, ErrorCallback: lost,
	})
	if err != nil {
		go drain(routes)
		go drain(links)
		return fmt.Errorf("watch the kernel's addresses: %w", err)
	}
	changed() // what happened before the subscriptions
	go follow(links, func(netlink.LinkUpdate) { changed() })
	go follow(addresses, func(netlink.AddrUpdate) { changed() })
	follow(routes, func(u netlink.RouteUpdate) {
		if r, ok := fromKernel(u.Route); ok && u.Table == unix.RT_TABLE_MAIN && concerns(r) {
			changed()
		}
	})
	<-ctx.Done()
	return context.Cause(ctx)
}

// follow calls f for each update until the channel is closed, which it is once the subscription has ended.
func follow[T any](updates <-chan T, f func(T)) {
	for u := range updates {
		f(u)
	}
}

func drain[T any](updates <-chan T) { follow(updates, func(T) {}) }
