//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// bootSpec is what PID 1 of a machine is told by [machine.powerOn] on its standard input.
type bootSpec struct {
	Dir      string   `json:"dir"`
	Hostname string   `json:"hostname"`
	Layers   []string `json:"layers"`
	Cgroup   string   `json:"cgroup"`
}

// newBoot is the program that a machine starts with. It becomes systemd; an error goes back on standard output.
func newBoot() *cobra.Command {
	return &cobra.Command{
		Use:    "boot",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var spec bootSpec
			// A parent that died before everything was ready leaves half a document: then nothing is booted.
			if err := json.NewDecoder(cmd.InOrStdin()).Decode(&spec); err != nil {
				return err
			}
			err := boot(spec)
			fmt.Fprint(cmd.OutOrStdout(), err)
			return err
		},
	}
}

// boot turns the calling process into the machine's systemd. It returns only when it fails.
func boot(spec bootSpec) error {
	// A cgroup namespace belongs to the thread that made it, and the thread that calls exec is the one that survives.
	runtime.LockOSThread()
	hierarchies, err := hostCgroups()
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		if err := h.join(spec.Cgroup); err != nil {
			return fmt.Errorf("join cgroup: %w", err)
		}
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("unshare cgroup namespace: %w", err)
	}
	unix.Umask(0)
	root := filepath.Join(spec.Dir, "root")
	for _, step := range []func() error{
		func() error { return mountRoot(spec, root) },
		func() error { return mountProc(spec.Dir, root) },
		func() error { return mountSys(hierarchies, root) },
		func() error { return mountDev(root) },
		func() error { return pivot(root) },
		func() error { return unix.Sethostname([]byte(spec.Hostname)) },
		silence,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	env := []string{"container=lab", "PATH=" + machinePath}
	return unix.Exec("/lib/systemd/systemd", []string{"systemd", "--system", "--unit=multi-user.target", "--show-status=no"}, env)
}

func mountRoot(spec bootSpec, root string) error {
	// Nothing mounted from here on may show on the host.
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", strings.Join(spec.Layers, ":"), spec.Dir, spec.Dir)
	if err := mount("overlay", root, "overlay", 0, options); err != nil {
		return err
	}
	// The overlay snapshotter of containerd cannot sit on an overlay, and etcd wants a plain disk.
	for _, v := range volumes() {
		if err := mount(filepath.Join(spec.Dir, "volumes", filepath.Base(v)), filepath.Join(root, v), "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	for _, dir := range []string{"run", "tmp"} {
		if err := mount("tmpfs", filepath.Join(root, dir), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil {
			return err
		}
	}
	return nil
}

// mountProc gives the machine its processes and its own network sysctls; all others are the host's and cannot be
// written. Where the kubelet would set one, a file with the value it wants lies on top.
func mountProc(dir, root string) error {
	proc := filepath.Join(root, "proc")
	if err := mount("proc", proc, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	for _, name := range []string{"sys", "sys/net"} {
		if err := mount(filepath.Join(proc, name), filepath.Join(proc, name), "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	if err := mount("", filepath.Join(proc, "sys"), "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return err
	}
	for name := range kernelFaces() {
		err := mount(filepath.Join(dir, "faces", filepath.Base(name)), filepath.Join(proc, name), "", unix.MS_BIND, "")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// mountSys shows the devices of the machine's own network namespace, and cgroups from the machine's group downwards.
func mountSys(hierarchies []hierarchy, root string) error {
	if err := mount("sysfs", filepath.Join(root, "sys"), "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RDONLY, ""); err != nil {
		return err
	}
	base := filepath.Join(root, "sys/fs/cgroup")
	if len(hierarchies) > 1 {
		if err := mount("tmpfs", base, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=755"); err != nil {
			return err
		}
	}
	for _, h := range hierarchies {
		target := filepath.Join(root, h.mount)
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		kind := "cgroup"
		if h.unified() {
			kind = "cgroup2"
		}
		if err := mount(kind, target, kind, unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, h.controllers); err != nil {
			return err
		}
	}
	return nil
}

// pivot makes root the only tree this process and its children can see. The old one is stacked on the same place and
// taken away, see pivot_root(2).
func pivot(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot to %s: %w", root, err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach the host's root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	// kubelet and containerd propagate mounts between containers, as on a machine that systemd booted.
	return mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")
}

// silence points standard input and error at /dev/null. Standard output stays until exec closes it, which is how the
// parent learns that all went well.
func silence() error {
	null, err := unix.Open("/dev/null", unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := unix.Dup3(null, 0, 0); err != nil {
		return err
	}
	if err := unix.Dup3(null, 2, 0); err != nil {
		return err
	}
	unix.CloseOnExec(1)
	return nil
}

func mount(source, target, kind string, flags uintptr, options string) error {
	if err := unix.Mount(source, target, kind, flags, options); err != nil {
		return &fs.PathError{Op: "mount " + kind, Path: target, Err: err}
	}
	return nil
}
