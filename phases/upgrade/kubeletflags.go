package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/upgrade/planner"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// kubeletFlags gives this machine's kubelet the flags of external mode again, where kubeadm has lost them.
func kubeletFlags() workflow.Phase {
	return workflow.Phase{
		Name:  "kubelet-flags",
		Short: "Look whether the kubelet keeps its flags of external cloud mode",
		Long: `kubeadm rewrites ` + machine.KubeadmFlags + ` where an argument in it is gone, and takes a flag without a
value for the name of the next. Reads the file as it was before, from ` + machine.StateFile + `; writes it where a
flag of external mode is lost, and takes --` + podInfraImage + ` away, which ends a kubelet of 1.35 and newer.`,
		Plan: func(context.Context, *workflow.Run) (string, error) {
			return "would look at " + machine.KubeadmFlags + " after that", nil
		},
		Run: func(_ context.Context, r *workflow.Run) error {
			s, err := workflow.MachineState(r.Env)
			if err != nil {
				return err
			}
			data, err := r.Machine.Read(machine.KubeadmFlags)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("read kubeadm's flags of the kubelet: %w", err)
			}
			now := string(data)
			text := now
			if s.KubeletFlags != "" {
				if text, err = mergeFlags(s.KubeletFlags, now); err != nil {
					r.Sayf("warning, it is left as it is: %v. Before the upgrade it was:\n%s", err, strings.TrimSpace(s.KubeletFlags))
				}
			}
			if dropsPodInfraImage(upgradeOf(r), text) {
				text, _ = kubelet.WithoutFlag(text, podInfraImage)
			}
			if text != now {
				if err := r.Write(machine.File{Path: machine.KubeadmFlags, Data: []byte(text), Mode: 0o644}); err != nil {
					return err
				}
			}
			if s.KubeletFlags != "" {
				s.KubeletFlags = ""
				if err := s.Write(r.Machine); err != nil {
					return err
				}
			}
			return tellExternal(r.Env)
		},
	}
}

// podInfraImage is a flag that kubeadm up to 1.34 gave to each kubelet, without which that is as it was, and kubelets
// from 1.35 on do not start with. Of all releases of kubeadm, 1.35 alone takes it away: a kubelet may go past that.
const podInfraImage = "pod-infra-container-image"

// dropsPodInfraImage tells whether an upgrade takes the flag out of kubeadm's file.
func dropsPodInfraImage(u *Upgrade, text string) bool {
	_, _, ok := kubelet.EnvOf(text)
	return ok && planner.Refuses(u.target, planner.Use{Component: planner.Kubelet, Name: podInfraImage})
}

// cleanedByUs tells whether this is that flag, where an upgrade takes it away.
func cleanedByUs(m *machine.Machine, u machine.FlagUse) bool {
	if u.File != m.Path(machine.KubeadmFlags) || u.Flag != podInfraImage {
		return false
	}
	data, err := m.Read(machine.KubeadmFlags)
	_, _, ok := kubelet.EnvOf(string(data))
	return err == nil && ok
}

// keepKubeletFlags notes kubeadm's file before kubeadm may write it. What an earlier run has noted is older, and stays.
func keepKubeletFlags(env *workflow.Env) error {
	s, err := workflow.MachineState(env)
	if err != nil || s.KubeletFlags != "" {
		return err
	}
	data, err := env.Machine.Read(machine.KubeadmFlags)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("keep kubeadm's flags of the kubelet: %w", err)
	}
	s.KubeletFlags = string(data)
	return s.Write(env.Machine)
}

// tellExternal says where the kubelet has its mode from, or that it has none.
func tellExternal(env *workflow.Env) error {
	uses, err := env.Machine.KubeletFlags("cloud-provider")
	if err != nil {
		return err
	}
	for _, u := range uses {
		env.Sayf("the kubelet has %s", u)
	}
	if len(uses) > 0 {
		return nil
	}
	ours, err := env.Machine.Read(machine.KubeletEnvFile)
	switch {
	case err == nil && strings.Contains(string(ours), "--cloud-provider=external"):
		env.Sayf("the kubelet has --cloud-provider=external by %s", machine.KubeletDropIn)
	case err == nil || errors.Is(err, fs.ErrNotExist):
		env.Sayf("warning, this machine's kubelet is not in external cloud mode: `ccmadm node external` sets it")
	default:
		return fmt.Errorf("look for the kubelet's flags: %w", err)
	}
	return nil
}

// mergeFlags is kubeadm's file as it has written it, with the flags of external mode as they were before, and without
// flags that have become the value of another. What is not as kubeadm writes it cannot be merged, and stays.
func mergeFlags(before, after string) (string, error) {
	if before == after {
		return after, nil
	}
	head, old, ok := kubelet.EnvOf(before)
	newHead, now, newOK := kubelet.EnvOf(after)
	if !ok || !newOK && after != "" {
		return after, fmt.Errorf("put back into %s what kubeadm may have lost: it is not as kubeadm writes it, one line",
			machine.KubeadmFlags)
	}
	if newHead != "" {
		head = newHead
	}
	mangled := func(f kubelet.Flag) bool { return strings.Contains(f.Text, "=--") }
	var merged []string
	for _, f := range old {
		i := f.In(now)
		switch {
		case i >= 0 && !mangled(now[i]): // what is there now may be newer than the note
			merged = append(merged, now[i].Text)
		case i >= 0, slices.Contains([]string{"cloud-provider", "node-ip", "provider-id"}, f.Name):
			merged = append(merged, f.Text)
		}
	}
	for _, f := range now {
		if f.In(old) < 0 && !mangled(f) {
			merged = append(merged, f.Text)
		}
	}
	text := kubelet.EnvText(head, merged)
	if strings.TrimSpace(text) == strings.TrimSpace(after) {
		return after, nil
	}
	return text, nil
}
