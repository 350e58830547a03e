package host

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
)

// tcpListen is the state of a socket that listens, in the kernel's tables.
const tcpListen = "0A"

// ports reads who listens. Whose sockets they are only root sees.
func (h *looking) ports() error {
	byInode := map[string]int{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		data, err := h.Read(table)
		if err != nil && table == "/proc/net/tcp" {
			return fmt.Errorf("read the table of sockets: %w", err)
		}
		for line := range strings.Lines(string(data)) {
			fields := strings.Fields(line)
			if len(fields) < 10 || fields[3] != tcpListen {
				continue
			}
			_, hex, _ := strings.Cut(fields[1], ":")
			if port, err := strconv.ParseUint(hex, 16, 16); err == nil {
				byInode["socket:["+fields[9]+"]"] = int(port)
			}
		}
	}
	owned := h.owners(byInode)
	for socket, port := range byInode {
		p := diagnosis.HostPort{Port: port}
		if pid := owned[socket]; pid > 0 {
			p.PID, p.Program, p.InPod = pid, h.program(pid), h.inPod(pid)
		}
		h.seen.Ports = append(h.seen.Ports, p)
	}
	slices.SortStableFunc(h.seen.Ports, func(a, b diagnosis.HostPort) int { return (a.Port-b.Port)*1<<22 + a.PID - b.PID })
	return nil
}

// owners finds the process of each socket. One that ends meanwhile, or is another user's, is left out.
func (h *looking) owners(sockets map[string]int) map[string]int {
	owned := map[string]int{}
	links, _ := filepath.Glob(h.Path("/proc/[0-9]*/fd/*")) // the pattern is well-formed, the only error there is
	for _, link := range links {
		target, err := os.Readlink(link)
		if _, wanted := sockets[target]; err != nil || !wanted {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(link))))
		if err == nil {
			owned[target] = pid
		}
	}
	return owned
}

// program is the name of a process by its command line, of which arguments may be secret.
func (h *looking) program(pid int) string {
	data, err := h.Read(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	name, _, _ := bytes.Cut(data, []byte{0})
	return finding.Clean(filepath.Base(string(name)))
}

func (h *looking) inPod(pid int) bool {
	data, err := h.Read(fmt.Sprintf("/proc/%d/cgroup", pid))
	return err != nil || bytes.Contains(data, []byte("kubepods")) // where it cannot be told, nothing is said against it
}
