//go:build linux

package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const machinePath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// volumes are the folders of a machine that must not lie on an overlay.
func volumes() []string { return []string{"/var/lib/containerd", "/var/lib/kubelet", "/var/lib/etcd"} }

// kernelFaces are files below /proc that belong to the kernel and so to the host. The sysctls are those a kubelet
// insists on, with the values it wants (k8s.io/component-helpers/node/util/sysctl): a machine is shown them instead of
// being allowed to set them. What is written to sysrq-trigger is lost.
func kernelFaces() map[string]string {
	b := randomBytes()
	return map[string]string{
		"sys/vm/overcommit_memory":      "1",
		"sys/vm/panic_on_oom":           "0",
		"sys/kernel/panic":              "10",
		"sys/kernel/panic_on_oops":      "1",
		"sys/kernel/keys/root_maxkeys":  "1000000",
		"sys/kernel/keys/root_maxbytes": "25000000",
		"sys/kernel/random/boot_id":     fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]),
		"sysrq-trigger":                 "",
	}
}

// create makes the folder of a machine, or finds it complete. A half-made one is made anew.
func (m machine) create(s settings) error {
	complete := filepath.Join(m.dir(), "complete")
	if _, err := os.Stat(complete); err == nil {
		return nil
	}
	if err := os.RemoveAll(m.dir()); err != nil {
		return err
	}
	for _, dir := range []string{"upper", "work", "root", "faces", "volumes/kubelet", "volumes/etcd"} {
		if err := os.MkdirAll(filepath.Join(m.dir(), dir), 0o755); err != nil {
			return err
		}
	}
	// kubeadm's preflight wants etcd's directory empty, and etcd wants it private.
	if err := os.Chmod(filepath.Join(m.dir(), "volumes/etcd"), 0o700); err != nil {
		return err
	}
	if err := cloneTree(s.Seed, filepath.Join(m.dir(), "volumes/containerd")); err != nil {
		return fmt.Errorf("clone images: %w", err)
	}
	identity, err := m.identity(s)
	if err != nil {
		return err
	}
	for name, content := range identity {
		file := filepath.Join(m.dir(), "upper", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(complete, nil, 0o644)
}

// identity is what differs between machines.
func (m machine) identity(s settings) (map[string]string, error) {
	files := map[string]string{
		"etc/hostname": m.name + "\n",
		// Without one, systemd-firstboot waits at a console for ever.
		"etc/machine-id": fmt.Sprintf("%x\n", randomBytes()),
		"etc/hosts":      m.lab.hosts(s),
		// Nobody answers there, but CoreDNS wants a name server.
		"etc/resolv.conf": fmt.Sprintf("nameserver %s\n", m.lab.addresses(s, 1)[0].Addr()),
		"etc/lab/api.env": "ENDPOINTS=" + s.Endpoints + "\n",
	}
	if s.IPFamily == ipv6 || s.IPFamily == dual {
		content, err := clusterNetworks(s)
		if err != nil {
			return nil, err
		}
		files["etc/lab/kubeadm.yaml"] = content
	}
	return files, nil
}

// hosts names every machine the lab can have, so that one added later is known to all.
func (l lab) hosts(s settings) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "127.0.0.1 localhost api\n::1 localhost ip6-localhost\n")
	for n := 1; n <= maxControlPlanes; n++ {
		l.writeHost(&b, s, 10+n, fmt.Sprintf("cp%d", n))
	}
	for n := 1; n <= maxWorkers; n++ {
		l.writeHost(&b, s, 100+n, fmt.Sprintf("w%d", n))
	}
	return b.String()
}

func (l lab) writeHost(b *bytes.Buffer, s settings, n int, name string) {
	for _, p := range l.addresses(s, n) {
		fmt.Fprintf(b, "%s %s\n", p.Addr(), name)
	}
}

func (m machine) writeFaces() error {
	for name, value := range kernelFaces() {
		if err := os.WriteFile(filepath.Join(m.dir(), "faces", filepath.Base(name)), []byte(value+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// randomBytes are those of a version 4 UUID, which a machine ID is too.
func randomBytes() []byte {
	b := make([]byte, 16)
	rand.Read(b) // never fails, see its documentation
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return b
}

// cloneTree copies containerd's folder with hard links: blobs and unpacked layers are never written again. Its
// databases are, so they are real copies.
func cloneTree(from, to string) error {
	return filepath.WalkDir(from, func(source string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(source, from))
		switch {
		case d.IsDir():
			info, err := d.Info()
			if err != nil {
				return err
			}
			if err := os.MkdirAll(target, 0o755); err != nil {
				return err
			}
			return os.Chmod(target, info.Mode())
		case d.Type()&fs.ModeSymlink != 0:
			link, err := os.Readlink(source)
			if err != nil {
				return err
			}
			return os.Symlink(link, target)
		case !d.Type().IsRegular():
			return fmt.Errorf("%s: not a file, folder or link", source)
		case filepath.Ext(source) == ".db":
			return copyFile(source, target)
		}
		return linkFile(source, target)
	})
}

// linkFile falls back to a copy when the cache and the state directory are on two disks.
func linkFile(source, target string) error {
	if err := os.Link(source, target); !errors.Is(err, unix.EXDEV) {
		return err
	}
	return copyFile(source, target)
}
