package l2

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
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

// readInterfaces lists the interfaces that are up and have addresses: of a bridge or bond the master, never a port. With
// them come their indexes, which tell one that was made again from the former of its name.
func readInterfaces(namespace netns.NsHandle) (found []v1alpha1.AgentInterface, indexes map[string]int, err error) {
	indexes = map[string]int{}
	err = enter(namespace, func() error {
		links, err := netlink.LinkList()
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			return fmt.Errorf("list interfaces: %w", err)
		}
		addresses, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			return fmt.Errorf("list addresses: %w", err)
		}
		links = slices.DeleteFunc(links, func(link netlink.Link) bool { return ofPod(link, addresses) })
		for _, link := range links {
			a := link.Attrs()
			if !usable(link, links) {
				continue
			}
			i := v1alpha1.AgentInterface{Name: a.Name, MAC: a.HardwareAddr.String()}
			for _, address := range addresses {
				if address.LinkIndex == a.Index && address.IP.IsGlobalUnicast() && address.Flags&unix.IFA_F_TENTATIVE == 0 {
					i.Addresses = append(i.Addresses, address.IPNet.String())
				}
			}
			if len(i.Addresses) > 0 {
				slices.Sort(i.Addresses)
				found = append(found, i)
				indexes[i.Name] = a.Index
			}
		}
		return nil
	})
	slices.SortFunc(found, func(a, b v1alpha1.AgentInterface) int { return strings.Compare(a.Name, b.Name) })
	return found, indexes, err
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
