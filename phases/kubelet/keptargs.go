package kubelet

import (
	"context"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// changedFlags are those that a step may change; a kubelet of 1.34 and newer refuses the last one.
func changedFlags() []string { return []string{"cloud-provider", "node-ip", "cloud-config"} }

// lostFlags are those that the former arguments have and the present ones have not, as they stand there.
func lostFlags(former, present string) []string {
	now := flagsOf(present)
	var lost []string
	for _, f := range flagsOf(former) {
		has := func(other Flag) bool { return other.Text == f.Text }
		if !slices.Contains(changedFlags(), f.Name) && !slices.ContainsFunc(now, has) {
			lost = append(lost, f.Text)
		}
	}
	return lost
}

// keptArgs are the unit's arguments, the step's, and behind them the --provider-id that our own file has of a machine
// that was prepared by the kubelet phase. What else is there is a copy of the unit's, which the administrator may have
// changed.
func keptArgs(ctx context.Context, m *machine.Machine, ours []string) (string, error) {
	unit, err := kubeletConfigArgs(ctx, m)
	if err != nil {
		return "", err
	}
	args := strings.Join(append([]string{unit}, ours...), " ")
	there, err := m.Exists(machine.KubeletDropIn)
	if err != nil || !there {
		return args, err // systemd does not read the file
	}
	own, _, err := m.UnitVariable("EnvironmentFile="+machine.KubeletEnvFile, configArgs, "")
	if err != nil {
		return "", err
	}
	const providerID = "provider-id"
	named := func(f Flag) bool { return f.Name == providerID }
	if slices.ContainsFunc(flagsOf(args), named) {
		return args, nil
	}
	for _, f := range flagsOf(own) {
		if named(f) {
			args += " " + f.Text
		}
	}
	return args, nil
}

// sayLost tells which flag a kubelet runs without that it had in its former process. It may be somebody else's file
// that has changed since that began, as kubeadm's does in an upgrade.
func sayLost(env *workflow.Env, former, now *machine.Kubelet) {
	if former == nil || now == nil {
		return // it has just ended: nothing is known of it
	}
	if lost := lostFlags(kubeletArgs(former), kubeletArgs(now)); len(lost) > 0 {
		env.Sayf("warning: the kubelet runs without %s, which its former process had: `systemctl cat kubelet` shows its files",
			strings.Join(lost, " "))
	}
}

// kubeletArgs is a kubelet's command line without the program.
func kubeletArgs(k *machine.Kubelet) string { return strings.Join(k.Args[1:], " ") }
