package announce

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
			runtime.UnlockOSThread() // else the thread ends with this goroutine, and nobody else gets it
		}
		_ = before.Close() // it was for this
	}()
	if err := netns.Set(namespace); err != nil {
		return fmt.Errorf("enter network namespace: %w", err)
	}
	return f()
}

// readInterfaces lists the interfaces that are up and have addresses: of a bridge or bond the master, never a port.
func readInterfaces(namespace netns.NsHandle) ([]v1alpha1.AgentInterface, error) {
	var found []v1alpha1.AgentInterface
	err := enter(namespace, func() error {
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
			}
		}
		return nil
	})
	slices.SortFunc(found, func(a, b v1alpha1.AgentInterface) int { return strings.Compare(a.Name, b.Name) })
	return found, err
}

// watchInterfaces calls changed after each event of the kernel about links and addresses, until ctx is done.
func watchInterfaces(ctx context.Context, namespace netns.NsHandle, changed func()) error {
	links, addresses := make(chan netlink.LinkUpdate, 64), make(chan netlink.AddrUpdate, 64)
	var at *netns.NsHandle
	if namespace.IsOpen() {
		at = &namespace
	}
	lost := func(error) { changed() } // the kernel drops events when there are too many: what there is is read anyway
	if err := netlink.LinkSubscribeWithOptions(links, ctx.Done(), netlink.LinkSubscribeOptions{Namespace: at, ErrorCallback: lost}); err != nil {
		return fmt.Errorf("watch interfaces: %w", err)
	}
	if err := netlink.AddrSubscribeWithOptions(addresses, ctx.Done(), netlink.AddrSubscribeOptions{Namespace: at, ErrorCallback: lost}); err != nil {
		return fmt.Errorf("watch addresses: %w", err)
	}
	for links != nil || addresses != nil {
		select {
		case _, open := <-links:
			if !open {
				links = nil
			}
		case _, open := <-addresses:
			if !open {
				addresses = nil
			}
		}
		changed()
	}
	if ctx.Err() == nil {
		return errors.New("watch interfaces: the kernel's events have ended")
	}
	return nil
}
