//go:build linux

package main

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/renameio/v2"
)

// machine is one node-to-be. It runs when the process in its pid file does.
type machine struct {
	lab   lab
	name  string
	index int // last byte of its address
}

const (
	maxControlPlanes = 9
	maxWorkers       = 99
)

// machine returns a machine by its name: cp1 to cp9, w1 to w99.
func (l lab) machine(name string) (machine, error) {
	parts := regexp.MustCompile(`^(cp|w)([1-9][0-9]?)$`).FindStringSubmatch(name)
	if parts == nil {
		return machine{}, fmt.Errorf("machine name %q: want cp1 to cp%d or w1 to w%d", name, maxControlPlanes, maxWorkers)
	}
	n, err := strconv.Atoi(parts[2])
	if err != nil {
		return machine{}, err
	}
	switch {
	case parts[1] == "w":
		return machine{l, name, 100 + n}, nil
	case n <= maxControlPlanes:
		return machine{l, name, 10 + n}, nil
	}
	return machine{}, fmt.Errorf("machine name %q: at most %d control planes", name, maxControlPlanes)
}

// runningMachine returns a machine that is switched on.
func (l lab) runningMachine(name string) (machine, error) {
	m, err := l.machine(name)
	if err != nil {
		return machine{}, err
	}
	if m.pid() == 0 {
		return machine{}, fmt.Errorf("machine %s of lab %q does not run: see lab list", name, l.name)
	}
	return m, nil
}

func (m machine) address() netip.Addr { return m.lab.host(m.index) }

func (m machine) dir() string { return filepath.Join(m.lab.dir, "machines", m.name) }

// cgroup is the name of the machine's group in every hierarchy of the host.
func (m machine) cgroup() string { return "ccmadm-lab-" + m.lab.name + "-" + m.name }

// path returns where the host sees a file of the running machine. Only for paths without a link that leads elsewhere.
func (m machine) path(name string) string {
	return filepath.Join("/proc", strconv.Itoa(m.pid()), "root", name)
}

// recordPid keeps the process with its start time, because numbers come back.
func (m machine) recordPid(pid int) error {
	return renameio.WriteFile(filepath.Join(m.dir(), "pid"), []byte(strconv.Itoa(pid)+" "+startTime(pid)+"\n"), 0o644)
}

// pid returns the host's number of the machine's PID 1, or 0 when it does not run.
func (m machine) pid() int {
	content, err := os.ReadFile(filepath.Join(m.dir(), "pid"))
	if err != nil {
		return 0
	}
	number, started, _ := strings.Cut(strings.TrimSpace(string(content)), " ")
	pid, err := strconv.Atoi(number)
	if err != nil || started == "" || startTime(pid) != started {
		return 0
	}
	return pid
}

// startTime returns field 22 of /proc/PID/stat, or nothing for a process that is gone or a zombie.
func startTime(pid int) string {
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return ""
	}
	// The second field is the command in parentheses and may hold blanks.
	fields := strings.Fields(string(content[strings.LastIndexByte(string(content), ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return ""
	}
	return fields[19]
}
