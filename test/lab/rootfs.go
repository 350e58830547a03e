//go:build linux

package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"text/template"

	"golang.org/x/sys/unix"
)

// machineFiles become part of every machine. They are templates over what differs by version.
//
//go:embed files
var machineFiles embed.FS

const debianSuite = "bookworm"

// debianPackages are what kubeadm, kubelet and kube-proxy expect of a machine, on top of the smallest Debian, and what
// makes a router of it.
const debianPackages = "systemd,systemd-sysv,dbus,iproute2,nftables,iptables,conntrack,kmod,procps,ethtool," +
	"socat,runc,containernetworking-plugins,ca-certificates,curl,mount,util-linux,less,bird2,frr"

// debian makes the root that all machines share. It is never booted itself.
func (b builder) debian(ctx context.Context, mirror string) (string, error) {
	return b.cached(ctx, "debian", []string{debianSuite, debianPackages, runtime.GOARCH}, func(dir string) error {
		cmd := exec.CommandContext(ctx, "debootstrap", "--variant=minbase", "--include="+debianPackages, debianSuite, dir, mirror)
		// It mounts in its new root and starts programs there: namespaces end both with it, however it ends.
		cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Unshareflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("debootstrap: %w: %s", err, lastLines(string(out), 10))
		}
		for _, name := range []string{"etc/hostname", "etc/machine-id", "etc/resolv.conf"} {
			if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return os.RemoveAll(filepath.Join(dir, "var/cache/apt/archives"))
	})
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// layer makes the overlay directory with everything that is not Debian's.
func (b builder) layer(ctx context.Context, t toolbox) (string, error) {
	inputs := []string{t.binaries, t.containerd, t.own, fmt.Sprint(canLowerOOMScore()), fmt.Sprint(machineLinks(), emptyDirs())}
	err := fs.WalkDir(machineFiles, "files", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := machineFiles.ReadFile(path)
		inputs = append(inputs, path, string(content))
		return err
	})
	if err != nil {
		return "", err
	}
	return b.cached(ctx, "layer", inputs, func(dir string) error {
		if err := t.writeFiles(dir); err != nil {
			return err
		}
		if err := t.installPrograms(filepath.Join(dir, "usr/bin")); err != nil {
			return err
		}
		for name, target := range machineLinks() {
			if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
				return err
			}
			if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
				return err
			}
		}
		for _, empty := range emptyDirs() {
			if err := os.MkdirAll(filepath.Join(dir, empty), 0o755); err != nil {
				return err
			}
		}
		return nil
	})
}

// machineLinks enable units, switch off what has no place in a machine without console and package updates, and put things
// where their users look.
func machineLinks() map[string]string {
	return map[string]string{
		"etc/systemd/system/multi-user.target.wants/containerd.service": "/usr/lib/systemd/system/containerd.service",
		"etc/systemd/system/multi-user.target.wants/kubelet.service":    "/usr/lib/systemd/system/kubelet.service",
		"etc/systemd/system/multi-user.target.wants/lab-routes.service": "/usr/lib/systemd/system/lab-routes.service",
		"etc/systemd/system/multi-user.target.wants/lab-api.service":    "/usr/lib/systemd/system/lab-api.service",
		"etc/systemd/system/getty.target":                               "/dev/null",
		"etc/systemd/system/console-getty.service":                      "/dev/null",
		"etc/systemd/system/apt-daily.timer":                            "/dev/null",
		"etc/systemd/system/apt-daily-upgrade.timer":                    "/dev/null",
		"etc/systemd/system/bird.service":                               "/dev/null", // a test that wants a router starts it
		"etc/systemd/system/frr.service":                                "/dev/null",
		"opt/cni/bin":                                                   "/usr/lib/cni",
		"root/.kube/config":                                             "/etc/kubernetes/admin.conf",
	}
}

func (t toolbox) writeFiles(dir string) error {
	data := map[string]any{
		"Kubernetes":       t.kubernetes,
		"Pause":            "registry.k8s.io/pause:" + tagOf(t.images, "pause"),
		"RestrictOOMScore": !canLowerOOMScore(),
	}
	root, err := fs.Sub(machineFiles, "files")
	if err != nil {
		return err
	}
	return fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(dir, path)
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		file, err := template.ParseFS(root, path)
		if err != nil {
			return err
		}
		out, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
		if err != nil {
			return err
		}
		return errors.Join(file.Execute(out, data), out.Close())
	})
}

// installPrograms links the binaries from where they were built.
func (t toolbox) installPrograms(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for target, source := range map[string]string{
		"kubeadm": t.binaries, "kubelet": t.binaries, "kubectl": t.binaries, "etcdctl": t.binaries,
		"containerd": t.containerd, "containerd-shim-runc-v2": t.containerd, "ctr": t.containerd,
		"apiproxy": t.own,
	} {
		if err := linkFile(filepath.Join(source, target), filepath.Join(dir, target)); err != nil {
			return err
		}
	}
	return linkFile(filepath.Join(t.binaries, "server"), filepath.Join(dir, "etcd"))
}

func canLowerOOMScore() bool {
	var data [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	err := unix.Capget(&header, &data[0])
	return err == nil && data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

func copyFile(source, target string) error {
	in, err := os.Open(source)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// emptyDirs are mount points, and the folder without which journald forgets everything at a power cut.
func emptyDirs() []string { return append(volumes(), "/var/log/journal", "/usr/lib/modules") }
