//go:build linux

package main

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmadm/ccmadm/test/lab/image"
)

// seed makes the content of /var/lib/containerd with all images unpacked, so that no machine has to import anything.
func (b builder) seed(ctx context.Context, t toolbox, debian string) (string, error) {
	inputs := append([]string{t.binaries, t.containerd, t.coredns, t.own, debian, imageFormat}, t.images...)
	return b.cached(ctx, "seed", inputs, func(dir string) error {
		archives := dir + ".images"
		if err := errors.Join(os.RemoveAll(archives), os.Mkdir(archives, 0o755)); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(archives) }()
		specs, err := t.imageSpecs(debian)
		if err != nil {
			return err
		}
		var files []string
		for i, spec := range specs {
			file := filepath.Join(archives, fmt.Sprintf("%d.tar", i))
			if err := image.Write(file, spec); err != nil {
				return err
			}
			files = append(files, file)
		}
		return importImages(ctx, dir, t.containerd, files)
	})
}

// imageFormat changes when images are put together in another way.
const imageFormat = "3"

// imageSpecs says how each image that kubeadm wants is made of our binaries, and adds the test workload.
func (t toolbox) imageSpecs(debian string) ([]image.Spec, error) {
	specs := []image.Spec{{
		Name: "lab.local/echo:1", Files: map[string]string{"/echo": filepath.Join(t.own, "echo")}, Entrypoint: []string{"/echo"},
	}}
	for _, reference := range t.images {
		repository, _, _ := strings.Cut(reference, ":")
		base := filepath.Base(repository)
		spec := image.Spec{Name: reference, Files: map[string]string{}}
		switch base {
		case "etcd":
			spec.Files["/usr/local/bin/etcd"] = filepath.Join(t.binaries, "server")
			spec.Files["/usr/local/bin/etcdctl"] = filepath.Join(t.binaries, "etcdctl")
		case "coredns":
			spec.Files["/coredns"] = filepath.Join(t.coredns, "coredns")
			spec.Entrypoint = []string{"/coredns"}
		case "pause":
			spec.Files["/pause"] = filepath.Join(t.own, "pause")
			spec.Entrypoint = []string{"/pause"}
		case "kube-proxy":
			if err := addWithLibraries(spec.Files, debian, "/usr/sbin/nft"); err != nil {
				return nil, err
			}
			if err := addIPTables(spec.Files, debian); err != nil {
				return nil, err
			}
			fallthrough
		default:
			spec.Files["/usr/local/bin/"+base] = filepath.Join(t.binaries, base)
		}
		spec.Env = []string{"PATH=" + machinePath}
		specs = append(specs, spec)
	}
	return specs, nil
}

// addIPTables adds the programs that kube-proxy runs in mode iptables: one file of many names, and what it loads.
func addIPTables(files map[string]string, root string) error {
	const multi = "/usr/sbin/xtables-nft-multi"
	if err := addWithLibraries(files, root, multi); err != nil {
		return err
	}
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, verb := range []string{"", "-save", "-restore"} {
			files["/usr/sbin/"+family+verb] = filepath.Join(root, multi)
		}
	}
	extensions, err := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu/xtables/*.so"))
	if err != nil || len(extensions) == 0 {
		return errors.Join(err, fmt.Errorf("extensions of iptables: %w", fs.ErrNotExist))
	}
	for _, path := range extensions {
		if err := addWithLibraries(files, root, strings.TrimPrefix(path, root)); err != nil {
			return err
		}
	}
	return nil
}

// addWithLibraries adds a program of the Debian root and, as the dynamic linker would, every library it names.
func addWithLibraries(files map[string]string, root, program string) error {
	queue := []string{program}
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		if _, done := files[name]; done {
			continue
		}
		files[name] = filepath.Join(root, name)
		needed, err := dependencies(root, name)
		if err != nil {
			return fmt.Errorf("libraries of %s: %w", name, err)
		}
		queue = append(queue, needed...)
	}
	return nil
}

func dependencies(root, name string) ([]string, error) {
	f, err := elf.Open(filepath.Join(root, name))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var found []string
	if section := f.Section(".interp"); section != nil {
		interpreter, err := section.Data()
		if err != nil {
			return nil, err
		}
		found = append(found, strings.TrimRight(string(interpreter), "\x00"))
	}
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return nil, err
	}
	for _, library := range libraries {
		matches, err := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu", library))
		if err != nil || len(matches) == 0 {
			return nil, errors.Join(err, fmt.Errorf("library %s: %w", library, fs.ErrNotExist))
		}
		found = append(found, strings.TrimPrefix(matches[0], root))
	}
	return found, nil
}

// importImages runs a containerd for the time it takes to unpack the archives into its root.
func importImages(ctx context.Context, root, binaries string, archives []string) error {
	// Not below root: the path of a socket has 107 bytes at most. The name is fixed, so a crash leaves nothing for ever.
	state := filepath.Join(os.TempDir(), "ccmadm-lab-"+filepath.Base(root))
	if err := errors.Join(os.RemoveAll(state), os.Mkdir(state, 0o700)); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(state) }()
	socket := filepath.Join(state, "sock")
	config := fmt.Sprintf("version = 3\nroot = %q\nstate = %q\ndisabled_plugins = ['io.containerd.cri.v1.runtime', 'io.containerd.cri.v1.images', 'io.containerd.grpc.v1.cri']\n[grpc]\naddress = %q\n", root, filepath.Join(state, "state"), socket)
	configFile := filepath.Join(state, "config.toml")
	if err := os.WriteFile(configFile, []byte(config), 0o600); err != nil {
		return err
	}
	log := &strings.Builder{}
	daemon := exec.CommandContext(ctx, filepath.Join(binaries, "containerd"), "--config", configFile)
	daemon.Stdout, daemon.Stderr = log, log
	// Its mounts stay in a namespace of its own, and it does not outlive us.
	daemon.SysProcAttr = &unix.SysProcAttr{Unshareflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	daemon.Cancel = func() error { return daemon.Process.Signal(unix.SIGTERM) }
	if err := daemon.Start(); err != nil {
		return err
	}
	err := waitSocket(ctx, socket)
	for _, archive := range archives {
		if err != nil {
			break
		}
		ctr := exec.CommandContext(ctx, filepath.Join(binaries, "ctr"), "--address", socket, "--namespace=k8s.io", "images", "import", archive)
		if out, ctrErr := ctr.CombinedOutput(); ctrErr != nil {
			err = fmt.Errorf("import: %w: %s", ctrErr, lastLines(string(out), 3))
		}
	}
	stopErr := daemon.Process.Signal(unix.SIGTERM)
	_ = daemon.Wait() // it says "signal: terminated"
	if err != nil {
		return fmt.Errorf("%w (containerd: %s)", err, lastLines(log.String(), 5))
	}
	return stopErr
}

func waitSocket(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		connection, err := net.Dial("unix", socket)
		if err == nil {
			return connection.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for containerd: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
