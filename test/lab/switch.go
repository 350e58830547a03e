//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const bridgeName = "switch"

// switchFile is where the network namespace of the lab's bridge is kept alive: a file with the namespace mounted on it.
func (l lab) switchFile() string { return filepath.Join(l.dir, "switch") }

// installSwitch makes the bridge that joins the machines, with the first address of the subnet as their default route.
// It lives in a namespace of its own: the host gets no link, no address and no route, and nothing leaves the box.
func (l lab) installSwitch(s settings) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(l.switchFile(), &stat); err == nil && stat.Type == unix.NSFS_MAGIC {
		return nil
	}
	if err := os.WriteFile(l.switchFile(), nil, 0o600); err != nil {
		return err
	}
	if err := newNetworkNamespace(l.switchFile()); err != nil {
		return fmt.Errorf("make network namespace: %w", err)
	}
	handle, err := l.switchHandle()
	if err != nil {
		return err
	}
	defer handle.Close()
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridgeName}}
	if err := handle.LinkAdd(bridge); err != nil {
		return fmt.Errorf("add bridge: %w", err)
	}
	return configure(handle, bridgeName, l.addresses(s, 1))
}

// newNetworkNamespace mounts a new namespace on the file. The thread that made it is not given back to Go.
func newNetworkNamespace(file string) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		done <- mount("/proc/thread-self/ns/net", file, "", unix.MS_BIND, "")
	}()
	return <-done
}

func (l lab) removeSwitch() error {
	err := unix.Unmount(l.switchFile(), unix.MNT_DETACH)
	// Not mounted after a reboot of the host, or not made yet.
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", l.switchFile(), err)
	}
	if err := os.Remove(l.switchFile()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// plugIn connects the namespace of a process with the switch and gives it the machine's address.
func (m machine) plugIn(pid int, s settings) error {
	outside, err := m.lab.switchHandle()
	if err != nil {
		return err
	}
	defer outside.Close()
	bridge, err := outside.LinkByName(bridgeName)
	if err != nil {
		return fmt.Errorf("find bridge: %w", err)
	}
	// The kernel takes a moment to remove the cable of a machine that was killed.
	if old, err := outside.LinkByName(m.name); err == nil {
		if err := outside.LinkDel(old); err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("remove old cable: %w", err)
		}
	}
	cable := &netlink.Veth{
		LinkAttrs:     netlink.LinkAttrs{Name: m.name, MasterIndex: bridge.Attrs().Index, Flags: net.FlagUp},
		PeerName:      "eth0",
		PeerNamespace: netlink.NsPid(pid),
	}
	if err := outside.LinkAdd(cable); err != nil {
		return fmt.Errorf("add cable: %w", err)
	}
	ns, err := netns.GetFromPid(pid)
	if err != nil {
		return err
	}
	defer func() { _ = ns.Close() }()
	inside, err := netlink.NewHandleAt(ns)
	if err != nil {
		return err
	}
	defer inside.Close()
	if err := configure(inside, "eth0", m.lab.addresses(s, m.index)); err != nil {
		return err
	}
	// kubeadm takes the address of the default route for its own.
	for _, p := range m.lab.addresses(s, 1) {
		if err := inside.RouteAdd(&netlink.Route{Gw: p.Addr().AsSlice()}); err != nil {
			return fmt.Errorf("add default route by %s: %w", p.Addr(), err)
		}
	}
	return nil
}

// unplug takes away the machine's cable. plugIn brings another.
func (m machine) unplug() error {
	outside, err := m.lab.switchHandle()
	if err != nil {
		return err
	}
	defer outside.Close()
	cable, err := outside.LinkByName(m.name)
	if err == nil {
		err = outside.LinkDel(cable)
	}
	if err != nil {
		return fmt.Errorf("unplug %s: %w", m.name, err)
	}
	return nil
}

// configure switches a link and the loopback on.
func configure(handle *netlink.Handle, name string, addresses []netip.Prefix) error {
	for _, n := range []string{"lo", name} {
		link, err := handle.LinkByName(n)
		if err != nil {
			return fmt.Errorf("find link %s: %w", n, err)
		}
		if err := handle.LinkSetUp(link); err != nil {
			return fmt.Errorf("switch link %s on: %w", n, err)
		}
		if n != name {
			continue
		}
		for _, p := range addresses {
			address := &netlink.Addr{IPNet: ipNet(p)}
			if p.Addr().Is6() {
				address.Flags = unix.IFA_F_NODAD // nobody else has it: usable at once
			}
			if err := handle.AddrAdd(link, address); err != nil {
				return fmt.Errorf("add address %s: %w", p, err)
			}
		}
	}
	return nil
}

func (l lab) switchHandle() (*netlink.Handle, error) {
	ns, err := netns.GetFromPath(l.switchFile())
	if err != nil {
		return nil, err
	}
	defer func() { _ = ns.Close() }()
	return netlink.NewHandleAt(ns)
}
