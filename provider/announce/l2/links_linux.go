package l2

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/dump"
)

// enter calls f on a thread in the network namespace: sockets stay in the one they were made in. None: where the
// process is.
func enter(namespace netns.NsHandle, f func() error) error {
	if !namespace.IsOpen() {
		return f()
	}
	runtime.LockOSThread()
	before, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("get network namespace: %w", err)
	}
	defer func() {
		if netns.Set(before) == nil {
			runtime.UnlockOSThread() // else the thread ends with this goroutine, and no other gets it
		}
		_ = before.Close() // it was for this
	}()
	if err := netns.Set(namespace); err != nil {
		return fmt.Errorf("enter network namespace: %w", err)
	}
	return f()
}

// reading is what the kernel has of interfaces and addresses at a moment.
type reading struct {
	// interfaces are those that are up and have addresses: of a bridge or bond the master, never a port.
	interfaces []v1alpha1.AgentInterface
	// usable are these, and those that would be if they had addresses.
	usable map[string]sameLink
	// local are all addresses of the machine, with their interfaces: also of interfaces that are down, such as kube-ipvs0, for which the kernel
	// answers all the same.
	local map[netip.Addr][]string
	// linkLocal are the link-local addresses of IPv6, with their interfaces as zones.
	linkLocal map[netip.Addr]bool
	// partial: addresses have changed meanwhile, and some may be missing.
	partial bool
}

// sameLink tells an interface from one that was made again under its name.
type sameLink struct {
	index int
	mac   string
}

// readKernel lists interfaces and addresses. With thousands of them that takes as long as some heartbeats are apart. What is partial is
// returned with the error, after one attempt: with kube-proxy in mode ipvs, addresses may change without a pause for a minute.
func readKernel(namespace netns.NsHandle, list func() ([]netlink.Addr, error)) (r reading, err error) {
	err = enter(namespace, func() error {
		links, err := dump.Whole(netlink.LinkList)
		if err != nil {
			return fmt.Errorf("list interfaces: %w", err)
		}
		addresses, err := list()
		r.partial = errors.Is(err, netlink.ErrDumpInterrupted)
		if err != nil {
			err = fmt.Errorf("list addresses: %w", err)
		}
		if err == nil || r.partial {
			r.local, r.linkLocal = localAddresses(links, addresses)
			r.interfaces, r.usable = interfacesOf(links, addresses)
		}
		return err
	})
	return r, err
}

// listAddresses lists those of all interfaces.
func listAddresses() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) }

// complete adds to a partial reading what was read before, if the interface is there as it was. Which interfaces are there is known.
func (r *reading) complete(last reading) {
	for address, on := range last.local {
		if len(r.local[address]) == 0 {
			r.local[address] = on
		}
	}
	for _, before := range last.interfaces {
		if link, is := r.usable[before.Name]; !is || link != last.usable[before.Name] {
			continue
		}
		i := slices.IndexFunc(r.interfaces, func(i v1alpha1.AgentInterface) bool { return i.Name == before.Name })
		if i < 0 {
			r.interfaces = append(r.interfaces, before)
			continue
		}
		now := &r.interfaces[i]
		for _, address := range before.Addresses {
			if slices.Contains(now.Addresses, address) {
				continue
			}
			now.Addresses = append(now.Addresses, address)
			if slices.Contains(before.Deprecated, address) {
				now.Deprecated = append(now.Deprecated, address)
			}
		}
		slices.Sort(now.Addresses)
		slices.Sort(now.Deprecated)
	}
	sortByName(r.interfaces)
}

func sortByName(interfaces []v1alpha1.AgentInterface) {
	slices.SortFunc(interfaces, func(a, b v1alpha1.AgentInterface) int { return strings.Compare(a.Name, b.Name) })
}

func interfacesOf(links []netlink.Link, addresses []netlink.Addr) (found []v1alpha1.AgentInterface, are map[string]sameLink) {
	are = map[string]sameLink{}
	for _, link := range links {
		a := link.Attrs()
		if !usable(link, links) {
			continue
		}
		are[a.Name] = sameLink{a.Index, a.HardwareAddr.String()}
		if ofPod(link, addresses) {
			continue
		}
		i := v1alpha1.AgentInterface{Name: a.Name, MAC: a.HardwareAddr.String()}
		for _, address := range addresses {
			if address.LinkIndex != a.Index || !address.IP.IsGlobalUnicast() || address.Flags&unix.IFA_F_TENTATIVE != 0 {
				continue
			}
			i.Addresses = append(i.Addresses, address.IPNet.String())
			if address.Flags&unix.IFA_F_DEPRECATED != 0 {
				i.Deprecated = append(i.Deprecated, address.IPNet.String())
			}
		}
		if len(i.Addresses) > 0 {
			slices.Sort(i.Addresses)
			slices.Sort(i.Deprecated)
			i.Addresses, i.Deprecated = slices.Compact(i.Addresses), slices.Compact(i.Deprecated) // a partial list may have one twice
			found = append(found, i)
		}
	}
	sortByName(found)
	return found, are
}

func localAddresses(links []netlink.Link, addresses []netlink.Addr) (local map[netip.Addr][]string, linkLocal map[netip.Addr]bool) {
	names := map[int]string{}
	local, linkLocal = map[netip.Addr][]string{}, map[netip.Addr]bool{}
	for _, link := range links {
		names[link.Attrs().Index] = link.Attrs().Name
	}
	for _, a := range addresses {
		name := names[a.LinkIndex]
		if address, ok := netip.AddrFromSlice(a.IP); ok && a.IP.IsLinkLocalUnicast() {
			linkLocal[address.WithZone(name)] = true
		} else if ok {
			local[address.Unmap()] = append(local[address.Unmap()], name)
		}
	}
	return local, linkLocal
}

// usable reports whether an address may be announced on a link. A port of a bridge or bond is none, while an interface in a
// VRF has its own addresses, and the VRF has no network.
func usable(link netlink.Link, links []netlink.Link) bool {
	a := link.Attrs()
	if a.Flags&net.FlagLoopback != 0 || a.Flags&net.FlagUp == 0 || len(a.HardwareAddr) != 6 || link.Type() == vrf ||
		a.OperState == netlink.OperDown || a.OperState == netlink.OperLowerLayerDown {
		return false
	}
	return a.MasterIndex == 0 || slices.ContainsFunc(links, func(master netlink.Link) bool {
		return master.Attrs().Index == a.MasterIndex && master.Type() == vrf
	})
}

// vrf is a netlink type.
const vrf = "vrf"

// eventBuffer is the receive buffer of a subscription in bytes: some thousand events at once fit.
const eventBuffer = 1 << 20

// watchInterfaces calls changed at its beginning, and after each event of the kernel about links and addresses, until
// ctx is done or a subscription ends, as it does when the kernel has had to drop events.
func watchInterfaces(ctx context.Context, namespace netns.NsHandle, changed func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lost := func(err error) { cancel(fmt.Errorf("watch interfaces: %w", err)) }
	links, addresses := make(chan netlink.LinkUpdate), make(chan netlink.AddrUpdate)
	err := netlink.LinkSubscribeWithOptions(links, ctx.Done(), netlink.LinkSubscribeOptions{
		Namespace: &namespace, ErrorCallback: lost, ReceiveBufferSize: eventBuffer, ReceiveBufferForceSize: true,
	})
	if err != nil {
		return fmt.Errorf("watch interfaces: %w", err)
	}
	go follow(links, changed)
	err = netlink.AddrSubscribeWithOptions(addresses, ctx.Done(), netlink.AddrSubscribeOptions{
		Namespace: &namespace, ErrorCallback: lost, ReceiveBufferSize: eventBuffer, ReceiveBufferForceSize: true,
	})
	if err != nil {
		return fmt.Errorf("watch addresses: %w", err)
	}
	go follow(addresses, changed)
	changed() // what happened before the subscriptions
	<-ctx.Done()
	return context.Cause(ctx)
}

// follow calls changed for each update until the channel is closed, which it is once the subscription has ended.
func follow[T any](updates <-chan T, changed func()) {
	for range updates {
		changed()
	}
}
