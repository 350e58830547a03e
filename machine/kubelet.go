package machine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Kubelet is the kubelet as it runs.
type Kubelet struct {
	PID  int      `json:"pid"`
	Args []string `json:"-"`
}

// RunningKubelet asks systemd and the kernel. A kubelet that does not run is nil.
func (m *Machine) RunningKubelet(ctx context.Context) (*Kubelet, error) {
	out, err := m.Output(ctx, "systemctl", "show", "-p", "MainPID", "--value", "kubelet")
	if err != nil {
		return nil, fmt.Errorf("ask for the kubelet's process: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		return nil, fmt.Errorf("ask for the kubelet's process: systemctl says %q", out)
	}
	if pid == 0 {
		return nil, nil // it does not run, which is an answer
	}
	line, err := m.Read(fmt.Sprintf("/proc/%d/cmdline", pid))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // it has just ended
	}
	if err != nil {
		return nil, fmt.Errorf("read the kubelet's command line: %w", err)
	}
	return &Kubelet{PID: pid, Args: strings.Split(string(bytes.TrimRight(line, "\x00")), "\x00")}, nil
}

// Flag is the value in effect: the last one counts. False: it is not set.
func (k *Kubelet) Flag(name string) (string, bool) {
	for i, arg := range slices.Backward(k.Args) {
		if value, is := strings.CutPrefix(arg, "--"+name+"="); is {
			return value, true
		}
		if arg == "--"+name {
			if i+1 == len(k.Args) || strings.HasPrefix(k.Args[i+1], "-") {
				return "", true // a switch, at the end or before another flag
			}
			return k.Args[i+1], true
		}
	}
	return "", false
}

// KubeletFlag is a flag of the kubelet, and where it comes from.
type KubeletFlag struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// From is FILE:LINE of each place, the one that wins last.
	From []string `json:"from,omitempty"`
	// Runs reports whether the running kubelet has it so.
	Runs bool `json:"runs"`

	// Uses are the places of From.
	Uses []FlagUse `json:"-"`
}

// KubeletFlag compares a flag of the files with that of the kubelet that runs, if one does. It is nil for a flag that
// stands nowhere.
func (m *Machine) KubeletFlag(k *Kubelet, name string) (*KubeletFlag, error) {
	uses, err := m.KubeletFlags(name)
	if err != nil {
		return nil, err
	}
	flag := KubeletFlag{Name: name}
	if own, err := m.Read(KubeletEnvFile); err == nil {
		ours := Kubelet{Args: strings.FieldsFunc(string(own), func(r rune) bool { return r <= ' ' || r == '"' })}
		if value, is := ours.Flag(name); is {
			flag.Value, flag.From = value, append(flag.From, m.Path(KubeletEnvFile))
			flag.Uses = append(flag.Uses, FlagUse{File: m.Path(KubeletEnvFile), Flag: name, Value: value})
		}
	}
	flag.Uses = append(flag.Uses, uses...)
	for _, u := range uses {
		flag.Value, flag.From = u.Value, append(flag.From, fmt.Sprintf("%s:%d", u.File, u.Line))
	}
	if k != nil {
		value, is := k.Flag(name)
		flag.Runs = is && (value == flag.Value || len(flag.From) == 0)
		flag.Value = cmp.Or(flag.Value, value)
	}
	if flag.Value == "" && len(flag.From) == 0 {
		return nil, nil // it stands nowhere, which is an answer
	}
	return &flag, nil
}
