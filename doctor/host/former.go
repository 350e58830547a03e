package host

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ccmadm/ccmadm/doctor/components"
)

// renewalSettles is how long a component may take to be started again after its certificate was renewed, and by how much a machine's clock
// may have been set meanwhile.
const renewalSettles = 5 * time.Minute

// former is the component of a static pod that has read a kubeconfig before its certificate was renewed, and uses the former one until that
// ends: what a kubeconfig has in itself is read once. The beginning of a certificate does not tell when it was made, since kubeadm
// takes that of the CA; a file that was written when a certificate was made has whole days to its end, and one that was edited has not.
func (h *looking) former(file string, end time.Time) string {
	info, err := os.Stat(h.Path(file))
	if err != nil {
		return ""
	}
	renewed := info.ModTime()
	left := end.Sub(renewed).Round(24 * time.Hour)
	if left <= 0 || (end.Sub(renewed)-left).Abs() > renewalSettles || h.Now().Sub(renewed) < renewalSettles {
		return ""
	}
	for _, p := range h.seen.Ports {
		if !p.InPod || !slices.Contains([]string{components.ControllerManager, components.Scheduler}, p.Program) {
			continue
		}
		started, err := h.started(p.PID)
		if err == nil && renewed.Sub(started) > renewalSettles && h.hasArgument(p.PID, "--kubeconfig="+file) {
			return p.Program
		}
	}
	return ""
}

// started is when a process was.
func (h *looking) started(pid int) (time.Time, error) {
	up, err := h.uptime()
	if err != nil {
		return time.Time{}, err
	}
	data, err := h.Read(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return time.Time{}, err
	}
	const state, startTime, hertz = 3, 22, 100 // proc_pid_stat(5); the name before the state may have blanks
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) <= startTime-state {
		return time.Time{}, fmt.Errorf("read the start of process %d: %d fields", pid, len(fields))
	}
	ticks, err := strconv.ParseInt(fields[startTime-state], 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the start of process %d: %w", pid, err)
	}
	return h.Now().Add(time.Duration(ticks)*time.Second/hertz - up), nil
}

func (h *looking) hasArgument(pid int, argument string) bool {
	line, err := h.Read(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && slices.Contains(strings.Split(string(line), "\x00"), argument)
}
