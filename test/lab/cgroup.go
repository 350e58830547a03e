//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// hierarchy is one cgroup mount of the host. There is one of version 2, or one for each controller, or both ("hybrid").
type hierarchy struct {
	mount       string
	controllers string // mount option of version 1; empty for version 2
}

// cgroups returns the host's hierarchies from the text of /proc/self/mountinfo.
func cgroups(mountinfo string) []hierarchy {
	var found []hierarchy
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if len(left) < 5 || len(right) < 3 || !strings.HasPrefix(left[4], "/sys/fs/cgroup") {
			continue
		}
		switch right[0] {
		case "cgroup":
			found = append(found, hierarchy{mount: left[4], controllers: controllersOf(right[2])})
		case "cgroup2":
			found = append(found, hierarchy{mount: left[4]})
		}
	}
	return found
}

// controllersOf drops from the mount options those that do not say what is in the hierarchy.
func controllersOf(options string) string {
	kept := slices.DeleteFunc(strings.Split(options, ","), func(o string) bool {
		return slices.Contains([]string{"rw", "ro", "xattr", "clone_children", "noprefix"}, o) || strings.HasPrefix(o, "release_agent=")
	})
	return strings.Join(kept, ",")
}

func hostCgroups() ([]hierarchy, error) {
	content, err := os.ReadFile("/proc/self/mountinfo")
	return cgroups(string(content)), err
}

func (h hierarchy) unified() bool { return h.controllers == "" }

// create makes a group. A cpuset of version 1 starts empty, and no process can enter it then.
func (h hierarchy) create(group string) error {
	dir := filepath.Join(h.mount, group)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if h.unified() {
		return os.MkdirAll(filepath.Join(dir, guests), 0o755)
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		content, err := os.ReadFile(filepath.Join(h.mount, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// guests is the group for processes of `lab exec`: version 2 allows none in a group that has children with controllers.
const guests = "lab.exec"

// join moves the calling process into the group; "0" means the writer, in whichever PID namespace it lives.
func (h hierarchy) join(group string) error {
	return os.WriteFile(filepath.Join(h.mount, group, "cgroup.procs"), []byte("0"), 0o644)
}

// remove deletes the group and what is below it, once its processes are gone.
func (h hierarchy) remove(group string) error {
	var dirs []string
	root := filepath.Join(h.mount, group)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil // files vanish while one looks
	})
	if err != nil {
		return err
	}
	for _, dir := range slices.Backward(dirs) {
		if err := removeDir(dir); err != nil {
			return fmt.Errorf("remove cgroup %s: %w", dir, err)
		}
	}
	return nil
}

// removeDir tries for a while: the kernel counts the dying processes of a killed machine a little longer.
func removeDir(dir string) error {
	deadline := time.Now().Add(10 * time.Second)
	for {
		err := unix.Rmdir(dir)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}
