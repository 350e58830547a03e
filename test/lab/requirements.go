//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// tool is a program of the host and the Debian package that brings it. Go has none: Debian's is too old.
type tool struct{ program, debian string }

func requiredTools() []tool {
	return []tool{{"nsenter", "util-linux"}, {"go", ""}, {"debootstrap", "debootstrap"}}
}

// checkHost reports everything that is missing at once. With install, missing programs are fetched first.
func checkHost(ctx context.Context, out io.Writer, p *places, install bool) error {
	missing := missingTools(exec.LookPath)
	if install && len(missing) > 0 && os.Geteuid() == 0 {
		if err := installTools(ctx, out, missing); err != nil {
			return err
		}
		missing = missingTools(exec.LookPath)
	}
	var problems []string
	if os.Geteuid() != 0 {
		problems = append(problems, "root: run it with sudo")
	}
	for _, t := range missing {
		advice := "apt-get install " + t.debian + ", or use --install"
		if t.debian == "" {
			advice = "https://go.dev/doc/install, and the PATH of root leads to it"
		}
		problems = append(problems, fmt.Sprintf("program %s: %s", t.program, advice))
	}
	problems = append(problems, checkKernel(p)...)
	if len(problems) > 0 {
		return fmt.Errorf("the lab cannot work here, missing:\n  %s", strings.Join(problems, "\n  "))
	}
	return nil
}

// requireRoot is checkHost for commands that need nothing else.
func requireRoot() error {
	if os.Geteuid() != 0 {
		return errors.New("machines belong to root: run it with sudo")
	}
	return nil
}

func missingTools(lookPath func(string) (string, error)) []tool {
	var missing []tool
	for _, t := range requiredTools() {
		if _, err := lookPath(t.program); err != nil {
			missing = append(missing, t)
		}
	}
	return missing
}

func installTools(ctx context.Context, out io.Writer, missing []tool) error {
	packages := []string{"install", "--yes", "--no-install-recommends"}
	for _, t := range missing {
		if t.debian != "" {
			packages = append(packages, t.debian)
		}
	}
	for _, args := range [][]string{{"update"}, packages} {
		fmt.Fprintf(out, "[host] apt-get %s\n", strings.Join(args, " "))
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w: %s", args[0], err, strings.TrimSpace(string(output)))
		}
	}
	return nil
}

func checkKernel(p *places) []string {
	var problems []string
	for _, ns := range []string{"mnt", "pid", "net", "uts", "ipc", "cgroup"} {
		if _, err := os.Stat("/proc/self/ns/" + ns); err != nil {
			problems = append(problems, "kernel feature: "+ns+" namespaces")
		}
	}
	if content, err := os.ReadFile("/proc/filesystems"); err == nil && !strings.Contains(string(content), "\toverlay\n") {
		problems = append(problems, "kernel feature: overlay file system (modprobe overlay)")
	}
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return append(problems, "/proc: "+err.Error())
	}
	problems = append(problems, checkCgroups(string(mountinfo), os.ReadFile)...)
	for _, dir := range []string{p.cache, p.state} {
		if onOverlay(dir) {
			problems = append(problems, dir+": a disk that is not an overlay itself; choose one with --cache or --state")
		}
	}
	if os.Geteuid() == 0 {
		if err := tryNetwork(); err != nil {
			problems = append(problems, "kernel feature: "+err.Error())
		}
	}
	return problems
}

// checkCgroups wants the controllers without which no kubelet starts (k8s.io/kubernetes/pkg/kubelet/cm).
func checkCgroups(mountinfo string, readFile func(string) ([]byte, error)) []string {
	var have []string
	systemd, unified := false, false
	for _, h := range cgroups(mountinfo) {
		if h.unified() {
			unified = true
			content, err := readFile(filepath.Join(h.mount, "cgroup.subtree_control"))
			if err == nil {
				have = append(have, strings.Fields(string(content))...)
			}
			continue
		}
		have = append(have, strings.Split(h.controllers, ",")...)
		systemd = systemd || h.controllers == "name=systemd"
	}
	var problems []string
	for _, c := range []string{"cpu", "cpuset", "memory", "pids"} {
		if !slices.Contains(have, c) {
			problems = append(problems, "cgroup controller "+c+", mounted and enabled for child groups")
		}
	}
	if !systemd && !unified {
		problems = append(problems, "cgroup hierarchy name=systemd, or version 2")
	}
	return problems
}

// onOverlay looks at the nearest folder that exists.
func onOverlay(dir string) bool {
	for ; ; dir = filepath.Dir(dir) {
		var stat unix.Statfs_t
		if err := unix.Statfs(dir, &stat); err == nil {
			return stat.Type == unix.OVERLAYFS_SUPER_MAGIC
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

// tryNetwork makes a bridge and a cable in a namespace that ends with the thread.
func tryNetwork() error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			result <- fmt.Errorf("new network namespace: %w", err)
			return
		}
		for _, link := range []netlink.Link{
			&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "try0"}},
			&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "try1"}, PeerName: "try2"},
		} {
			if err := netlink.LinkAdd(link); err != nil {
				result <- fmt.Errorf("link of type %s: %w", link.Type(), err)
				return
			}
		}
		result <- nil
	}()
	return <-result
}
