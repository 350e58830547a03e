//go:build linux

package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	hybridMounts = `30 29 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
31 29 0:27 / /sys/fs/cgroup/cpuset rw,relatime shared:3 - cgroup cgroup rw,cpuset,clone_children
32 29 0:28 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
33 29 0:29 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
34 29 0:30 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,release_agent=/lib/systemd/agent,name=systemd
35 29 0:31 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
36 29 0:31 / /mnt/elsewhere rw,relatime - cgroup2 cgroup2 rw
`
	unifiedMounts = "30 29 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
)

func TestCgroups(t *testing.T) {
	tests := []struct {
		name, mountinfo string
		want            []hierarchy
	}{
		{"none", "22 1 8:1 / / rw - ext4 /dev/vda rw\n", nil},
		{"version 2", unifiedMounts, []hierarchy{{"/sys/fs/cgroup", ""}}},
		{"hybrid", hybridMounts, []hierarchy{
			{"/sys/fs/cgroup/cpu,cpuacct", "cpu,cpuacct"},
			{"/sys/fs/cgroup/cpuset", "cpuset"},
			{"/sys/fs/cgroup/memory", "memory"},
			{"/sys/fs/cgroup/pids", "pids"},
			{"/sys/fs/cgroup/systemd", "name=systemd"},
			{"/sys/fs/cgroup/unified", ""},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, cgroups(tt.mountinfo), cmp.AllowUnexported(hierarchy{})); diff != "" {
				t.Errorf("hierarchies (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckCgroups(t *testing.T) {
	tests := []struct {
		name, mountinfo, enabled string
		want                     []string
	}{
		{name: "hybrid", mountinfo: hybridMounts},
		{name: "version 2", mountinfo: unifiedMounts, enabled: "cpuset cpu io memory pids"},
		{name: "version 2 without cpuset", mountinfo: unifiedMounts, enabled: "cpu memory pids", want: []string{"cgroup controller cpuset, mounted and enabled for child groups"}},
		{name: "nothing", want: []string{
			"cgroup controller cpu, mounted and enabled for child groups",
			"cgroup controller cpuset, mounted and enabled for child groups",
			"cgroup controller memory, mounted and enabled for child groups",
			"cgroup controller pids, mounted and enabled for child groups",
			"cgroup hierarchy name=systemd, or version 2",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			read := func(string) ([]byte, error) { return []byte(tt.enabled), nil }
			if diff := cmp.Diff(tt.want, checkCgroups(tt.mountinfo, read)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMissingTools(t *testing.T) {
	only := func(program string) (string, error) {
		if program == "go" {
			return "/usr/bin/go", nil
		}
		return "", exec.ErrNotFound
	}
	want := []tool{{"nsenter", "util-linux"}, {"debootstrap", "debootstrap"}}
	if diff := cmp.Diff(want, missingTools(only), cmp.AllowUnexported(tool{})); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
}

func TestLockFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	unlock, err := lockFile(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := lockFile(ctx, file); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("second holder: got error %v, want a deadline", err)
	}
	unlock()
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("unlock left the file, error %v", err)
	}
	again, err := lockFile(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	again()
}
