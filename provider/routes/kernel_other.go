//go:build !linux

package routes

import (
	"errors"

	"github.com/vishvananda/netns"
)

// Kernel is the routing table of a machine with Linux. This one is none.
type Kernel struct{}

// Leftovers are what agents left there.
type Leftovers struct{}

var errNoLinux = errors.New("look for pod routes: only a machine with Linux has them")

// OpenKernel fails.
func OpenKernel(netns.NsHandle) (*Kernel, error) { return nil, errNoLinux }

// Close does nothing.
func (*Kernel) Close() {}

// Leftovers fails.
func (*Kernel) Leftovers() (Leftovers, error) { return Leftovers{}, errNoLinux }

// Remove fails.
func (*Kernel) Remove(Leftovers) error { return errNoLinux }

// Lines are none.
func (Leftovers) Lines() []string { return nil }
