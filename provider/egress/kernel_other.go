//go:build !linux

package egress

import (
	"errors"

	"github.com/vishvananda/netns"
)

// Kernel is that of a machine with Linux. This one is none.
type Kernel struct{}

var errNoLinux = errors.New("look for egress of pods: only a machine with Linux has it")

// OpenKernel fails.
func OpenKernel(netns.NsHandle) (*Kernel, error) { return nil, errNoLinux }

// Close does nothing.
func (*Kernel) Close() {}

// Leftovers fails.
func (*Kernel) Leftovers() ([]string, error) { return nil, errNoLinux }

// Remove fails.
func (*Kernel) Remove() error { return errNoLinux }
