//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOpenLab(t *testing.T) {
	tests := []struct {
		name, lab, wantErr string
	}{
		{name: "one letter", lab: "a"},
		{name: "dashes and digits", lab: "e2e-1"},
		{name: "empty", lab: "", wantErr: "want up to 20"},
		{name: "a path", lab: "../etc", wantErr: "want up to 20"},
		{name: "a dash at the end", lab: "a-", wantErr: "want up to 20"},
		{name: "too long for a cgroup and a link", lab: strings.Repeat("a", 21), wantErr: "want up to 20"},
		{name: "a lock file", lab: "lab.lock", wantErr: "want up to 20"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := openLab(&places{state: "/state"}, tt.lab)
			checkError(t, err, tt.wantErr)
		})
	}
}

func TestSubnet(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []string{"lab", "a", "b", "e2e-1", "e2e-2"} {
		l := lab{name: name}
		subnet := l.subnet()
		if b := subnet.Addr().As4(); b[0] != 198 || b[1]&^1 != 18 || subnet.Bits() != 24 {
			t.Errorf("lab %s: %s is outside of 198.18.0.0/15", name, subnet)
		}
		if !subnet.Contains(l.host(199)) {
			t.Errorf("lab %s: %s does not contain %s", name, subnet, l.host(199))
		}
		seen[subnet.String()] = true
	}
	if len(seen) != 5 {
		t.Errorf("five labs share subnets: %v", seen)
	}
}

func TestMachine(t *testing.T) {
	tests := []struct {
		machine string
		want    int
		wantErr string
	}{
		{machine: "cp1", want: 11},
		{machine: "cp9", want: 19},
		{machine: "w1", want: 101},
		{machine: "w99", want: 199},
		{machine: "cp10", wantErr: "at most 9 control planes"},
		{machine: "w0", wantErr: "want cp1 to cp9 or w1 to w99"},
		{machine: "w01", wantErr: "want cp1"},
		{machine: "w100", wantErr: "want cp1"},
		{machine: "cp1/..", wantErr: "want cp1"},
	}
	for _, tt := range tests {
		t.Run(tt.machine, func(t *testing.T) {
			m, err := lab{}.machine(tt.machine)
			checkError(t, err, tt.wantErr)
			if m.index != tt.want {
				t.Errorf("got index %d, want %d", m.index, tt.want)
			}
		})
	}
}

func TestMachinePid(t *testing.T) {
	m := newMachine(t, "cp1")
	if got := m.pid(); got != 0 {
		t.Errorf("without a file: got %d", got)
	}
	if err := m.recordPid(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	if got := m.pid(); got != os.Getpid() {
		t.Errorf("own process: got %d, want %d", got, os.Getpid())
	}
	// The same number, but a process that started at another time.
	if err := os.WriteFile(filepath.Join(m.dir(), "pid"), []byte("1 7\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := m.pid(); got != 0 {
		t.Errorf("number of another process: got %d, want 0", got)
	}
}

func TestMachineNames(t *testing.T) {
	tests := []struct {
		name    string
		flags   upFlags
		want    []string
		wantErr string
	}{
		{name: "both kinds", flags: upFlags{controlPlanes: 2, workers: 1}, want: []string{"cp1", "cp2", "w1"}},
		{name: "only workers", flags: upFlags{workers: 1}, want: []string{"w1"}},
		{name: "too many", flags: upFlags{controlPlanes: 10}, wantErr: "want at most 9 and 99"},
		{name: "negative", flags: upFlags{workers: -1}, wantErr: "want at most 9 and 99"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.flags.machineNames()
			checkError(t, err, tt.wantErr)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRoutes(t *testing.T) {
	l := lab{name: "lab"}
	self, err := l.machine("w1")
	if err != nil {
		t.Fatal(err)
	}
	ranges := map[string][]string{
		"cp1":      {"10.244.0.0/24", "fd00:10:244::/64"},
		"w1":       {"10.244.1.0/24", "fd00:10:244:1::/64"},
		"w2":       {"10.244.2.0/24", "fd00:10:244:2::/64"},
		"stranger": {"10.244.9.0/24"},
	}
	four := []string{"route replace 10.244.0.0/24 via 198.18.244.11", "route replace 10.244.2.0/24 via 198.18.244.102"}
	six := []string{"route replace fd00:10:244::/64 via 2001:2:0:f4::b", "route replace fd00:10:244:2::/64 via 2001:2:0:f4::66"}
	for family, want := range map[string][]string{
		"":   four,
		ipv4: four,
		ipv6: six,
		dual: {four[0], six[0], four[1], six[1]},
	} {
		got := strings.Split(strings.TrimSpace(l.routes(settings{IPFamily: family}, self, ranges)), "\n")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("routes of family %q (-want +got):\n%s", family, diff)
		}
	}
}

func newMachine(t *testing.T, name string) machine {
	t.Helper()
	l, err := openLab(&places{state: t.TempDir()}, "test")
	if err != nil {
		t.Fatal(err)
	}
	m, err := l.machine(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(m.dir(), 0o755); err != nil {
		t.Fatal(err)
	}
	return m
}

func checkError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Fatal(err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got error %v, want %q", err, want)
	}
}
