package announce

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/kernel"
)

// readInterfaces lists the interfaces that are up and have addresses: of a bridge or bond the master, never a port.
// With them come their indexes, which tell one that was made again from the former of its name.
func readInterfaces(namespace netns.NsHandle) (found []v1alpha1.AgentInterface, indexes map[string]int, err error) {
	indexes = map[string]int{}
	err = kernel.Enter(namespace, func() error {
		links, err := netlink.LinkList()
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			return fmt.Errorf("list interfaces: %w", err)
		}
		addresses, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			return fmt.Errorf("list addresses: %w", err)
		}
		for _, link := range links {
			a := link.Attrs()
			if a.Flags&net.FlagLoopback != 0 || a.Flags&net.FlagUp == 0 || a.MasterIndex != 0 || len(a.HardwareAddr) != 6 ||
				a.OperState == netlink.OperDown || a.OperState == netlink.OperLowerLayerDown {
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
