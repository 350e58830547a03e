//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Every systemd, containerd, kubelet, kube-proxy and API server watches files. All machines of all labs are one user to
// the kernel, whose usual limit of 128 inotify instances is enough for five of them; beyond it kubelets and proxies
// fail one by one with "too many open files" (https://kind.sigs.k8s.io/docs/user/known-issues).
const (
	instancesFile       = "/proc/sys/fs/inotify/max_user_instances"
	instancesPerMachine = 25 // 20 to 24 were counted
	instancesRaised     = 8192
)

// ensureLimits checks the limit for all machines there will be. With install it is raised until the last lab is down;
// what it was before is on record first.
func ensureLimits(ctx context.Context, out io.Writer, p *places, wanted upFlags) error {
	unlock, err := lockFile(ctx, filepath.Join(p.state, "limits.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	machines, err := countMachines(p, wanted)
	if err != nil {
		return err
	}
	limit, err := readNumber(instancesFile)
	if err != nil || limit >= machines*instancesPerMachine {
		return err
	}
	if !wanted.build.install {
		return fmt.Errorf("%d machines need %d inotify instances, the limit is %d: sysctl fs.inotify.max_user_instances=%d, or use --install",
			machines, machines*instancesPerMachine, limit, instancesRaised)
	}
	if err := os.WriteFile(before(p), []byte(strconv.Itoa(limit)), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(out, "[host] raised fs.inotify.max_user_instances from %d to %d until the last lab is down\n", limit, instancesRaised)
	return os.WriteFile(instancesFile, []byte(strconv.Itoa(instancesRaised)), 0o644)
}

// restoreLimits undoes ensureLimits when no lab is left, unless somebody chose another value since.
func restoreLimits(ctx context.Context, p *places) error {
	if _, err := os.Stat(p.state); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	unlock, err := lockFile(ctx, filepath.Join(p.state, "limits.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	labs, err := allLabs(p)
	if err != nil || len(labs) > 0 {
		return err
	}
	old, err := os.ReadFile(before(p))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if limit, err := readNumber(instancesFile); err == nil && limit == instancesRaised {
		if err := os.WriteFile(instancesFile, old, 0o644); err != nil {
			return err
		}
	}
	return os.Remove(before(p))
}

func before(p *places) string { return filepath.Join(p.state, "max_user_instances.before") }

// countMachines counts those of all labs, with the wanted ones once.
func countMachines(p *places, wanted upFlags) (int, error) {
	names, err := wanted.machineNames()
	if err != nil {
		return 0, err
	}
	all := map[string]bool{}
	for _, n := range names {
		all[wanted.name+"/"+n] = true
	}
	labs, err := allLabs(p)
	if err != nil {
		return 0, err
	}
	for _, l := range labs {
		machines, err := l.machines()
		if err != nil {
			return 0, err
		}
		for _, m := range machines {
			all[l.name+"/"+m.name] = true
		}
	}
	return len(all), nil
}

func readNumber(file string) (int, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(content)))
}
