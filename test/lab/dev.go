//go:build linux

package main

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mountDev makes a small /dev, so that a machine cannot reach the host's disks and consoles.
func mountDev(root string) error {
	dev := filepath.Join(root, "dev")
	if err := mount("tmpfs", dev, "tmpfs", unix.MS_NOSUID, "mode=755"); err != nil {
		return err
	}
	null := unix.Mkdev(1, 3)
	nodes := map[string]uint64{
		"null": null, "zero": unix.Mkdev(1, 5), "full": unix.Mkdev(1, 7), "random": unix.Mkdev(1, 8),
		"urandom": unix.Mkdev(1, 9), "tty": unix.Mkdev(5, 0), "fuse": unix.Mkdev(10, 229),
		// The kubelet will not start without a kernel log, and systemd would write into the host's.
		"kmsg": null, "console": null,
	}
	for name, number := range nodes {
		if err := unix.Mknod(filepath.Join(dev, name), unix.S_IFCHR|0o666, int(number)); err != nil {
			return &os.PathError{Op: "mknod", Path: "/dev/" + name, Err: err}
		}
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
	} {
		if err := os.Symlink(target, filepath.Join(dev, name)); err != nil {
			return err
		}
	}
	for _, name := range []string{"pts", "shm", "mqueue"} {
		if err := os.Mkdir(filepath.Join(dev, name), 0o755); err != nil {
			return err
		}
	}
	if err := mount("devpts", filepath.Join(dev, "pts"), "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,gid=5"); err != nil {
		return err
	}
	return mount("tmpfs", filepath.Join(dev, "shm"), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777")
}
