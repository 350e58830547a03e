//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// powerOn boots a machine that does not run: a new child gets its network from outside and then becomes systemd.
// The order matters: everything is on record before the child is told to go on, and without that word it ends itself.
func (m machine) powerOn(s settings) error {
	hierarchies, err := hostCgroups()
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		// What a power cut left would keep the dead machine's limits.
		if err := h.remove(m.cgroup()); err != nil {
			return err
		}
		if err := h.create(m.cgroup()); err != nil {
			return fmt.Errorf("create cgroup: %w", err)
		}
	}
	if err := m.writeFaces(); err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe", "boot")
	cmd.SysProcAttr = &unix.SysProcAttr{
		Setsid:     true, // Ctrl-C at `up` must not reach machines that run
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start PID 1: %w", err)
	}
	spec := bootSpec{Dir: m.dir(), Hostname: m.name, Layers: s.Layers, Cgroup: m.cgroup()}
	if err := m.letGo(cmd.Process.Pid, s, spec, stdin, stdout); err != nil {
		return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	// From here on it belongs to the host's init.
	return cmd.Process.Release()
}

func (m machine) letGo(pid int, s settings, spec bootSpec, stdin io.WriteCloser, stdout io.Reader) error {
	defer func() { _ = stdin.Close() }()
	if err := m.recordPid(pid); err != nil {
		return err
	}
	if err := m.plugIn(pid, s); err != nil {
		return err
	}
	if err := json.NewEncoder(stdin).Encode(spec); err != nil {
		return err
	}
	complaint, err := io.ReadAll(stdout) // ends when exec closes the child's side
	if err != nil {
		return err
	}
	if len(complaint) > 0 {
		return fmt.Errorf("boot: %s", complaint)
	}
	return nil
}

// waitReady returns what is wrong with the machine, or nothing, once containerd answers and systemd has nothing left
// to start.
func (m machine) waitReady(ctx context.Context) (complaint string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := m.waitContainerd(ctx); err != nil {
		return "", err
	}
	out, err := m.command(ctx, "systemctl", "is-system-running", "--wait").Output()
	switch state := strings.TrimSpace(string(out)); state {
	case "running":
		return "", nil
	case "":
		return "", fmt.Errorf("ask systemd for its state: %w", err)
	default: // the exit code says no more than the word; on a machine in use a failed unit is its user's business
		failed, err := m.command(ctx, "systemctl", "list-units", "--failed", "--plain", "--no-legend").Output()
		return fmt.Sprintf("%s: %s", state, strings.TrimSpace(string(failed))), err
	}
}

func (m machine) waitContainerd(ctx context.Context) error {
	for {
		if m.pid() == 0 {
			return errors.New("machine ended while it booted")
		}
		connection, err := net.Dial("unix", m.path("/run/containerd/containerd.sock"))
		if err == nil {
			return connection.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for containerd: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// powerOff is a power cut: PID 1 is killed, and the kernel ends every process of the machine with it.
func (m machine) powerOff(ctx context.Context) error {
	pid := m.pid()
	if pid == 0 {
		return nil
	}
	handle, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open PID 1: %w", err)
	}
	defer func() { _ = unix.Close(handle) }()
	if m.pid() != pid { // the number changed hands before it was pinned
		return nil
	}
	if err := unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill PID 1: %w", err)
	}
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}, 100)
		switch {
		case n > 0:
			return os.Remove(filepath.Join(m.dir(), "pid"))
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}
