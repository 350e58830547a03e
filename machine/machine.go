// Package machine is the machine that a run works on: its files, commands, service manager, clock, addresses, firmware
// tables, and what the cloud's metadata service says of it.
//
// Start at [Machine]. [New] is the one that this process runs on; [At] is a directory that stands for one, for tests and
// for images. [Machine.DryRun] returns the same machine with decorators that show what would be written or run.
//
// Reads: files below the root, network interfaces, systemd's answers, the metadata service that a profile names.
// Writes: only through [Files] and [Runner]; files atomically, the previous content kept beside them. A second write of
// the same content changes nothing. It will not: know what a file means, or decide what is written.
package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Machine is one machine. Its fields are set once and then only read.
type Machine struct {
	// Root is the directory that paths are below; "/" but in tests and images.
	Root string
	// Files writes, or in a dry run shows.
	Files Files
	// Runner runs commands, or in a dry run shows those that change something.
	Runner Runner
	// Now is the clock.
	Now func() time.Time
	// Interfaces lists the usable addresses, by interface in the kernel's order, lo last.
	Interfaces func() ([][]netip.Addr, error)
	// DefaultAddress is that of the interface with the default route.
	DefaultAddress func() (netip.Addr, error)
	// Dial connects with an address as the machine's own programs do.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// PodNetwork finds what the node agent has put into the kernel, and returns lines that name it, and what removes it. Nil
	// where there is no kernel to be asked.
	PodNetwork func() (lines []string, remove func() error, err error)
	// Superuser tells whether this process may change the machine.
	Superuser bool
}

// New returns the machine that this process runs on.
func New() *Machine {
	m := At("/")
	m.Superuser = os.Geteuid() == 0
	return m
}

// At returns a machine whose files are below a directory. Whoever may write there may change it.
func At(root string) *Machine {
	return &Machine{
		Root: root, Files: diskFiles{root}, Runner: execRunner{}, Now: time.Now, Superuser: true,
		Interfaces: interfaceAddresses, DefaultAddress: defaultAddress, Dial: new(net.Dialer).DialContext,
	}
}

// DryRun returns the machine as it is shown by a dry run: what would be written or run goes to out. The mask hides
// secrets in what is shown of a file.
func (m *Machine) DryRun(out io.Writer, mask func([]byte) []byte) *Machine {
	shown := *m
	shown.Files = printFiles{m.Root, out, mask}
	shown.Runner = printRunner{m.Runner, out}
	return &shown
}

// Path is where a file of the machine is for this process.
func (m *Machine) Path(path string) string { return filepath.Join(m.Root, path) }

// Read returns a file's content. Symbolic links are followed as the machine itself does: an absolute one begins at its
// root, and not at that of this process.
func (m *Machine) Read(path string) ([]byte, error) {
	followed, err := m.follow(path)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(followed)
}

// maxLinks is how many symbolic links the kernel follows in one path.
const maxLinks = 40

// follow is where a file of the machine is for this process, behind all symbolic links.
func (m *Machine) follow(path string) (string, error) { return follow(m.Root, path) }

// follow is where a file below a root is. An absolute link leads to a place below the root.
func follow(root, path string) (string, error) {
	done, links := "/", 0
	for rest := path; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(strings.TrimLeft(rest, "/"), "/")
		next := filepath.Join(done, name)
		target, err := os.Readlink(filepath.Join(root, next))
		if err != nil { // it is none, or whoever opens it says why not
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
		}
		if filepath.IsAbs(target) {
			done = "/"
		}
		rest = target + "/" + rest
	}
	return filepath.Join(root, done), nil
}

// Astray tells whether a path leads this process elsewhere than the machine itself, as an absolute link does below
// another root: only Read follows such a one.
func (m *Machine) Astray(path string) (bool, error) {
	followed, err := m.follow(path)
	if err != nil {
		return false, err
	}
	theirs, err := os.Stat(followed)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("look for %s: %w", path, err)
	}
	ours, err := os.Stat(m.Path(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("look for %s: %w", path, err)
	}
	return (ours == nil) != (theirs == nil) || ours != nil && !os.SameFile(ours, theirs), nil
}

// Exists tells whether there is a file, or that it cannot be told.
func (m *Machine) Exists(path string) (bool, error) {
	_, err := os.Lstat(m.Path(path))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", path, err)
	}
	return true, nil
}

// ID is what the kubelet reports as status.nodeInfo.machineID; empty on a machine without one.
func (m *Machine) ID() string { return m.line("/etc/machine-id") }

func (m *Machine) line(path string) string {
	data, err := m.Read(path)
	if err != nil {
		return "" // a machine that does not say it has no answer to be told from silence
	}
	return strings.TrimSpace(string(data))
}

// DMI is one line of what the firmware says of the machine, such as sys_vendor; empty where it says nothing.
func (m *Machine) DMI(file string) string { return m.line(filepath.Join(DMIDir, filepath.Base(file))) }
