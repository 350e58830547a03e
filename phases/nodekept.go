package phases

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/phases/machine"
)

// changedFlags are those that a step may change; a kubelet of 1.34 and newer refuses the last one.
func changedFlags() []string { return []string{"cloud-provider", "node-ip", "cloud-config"} }

// lostFlags are those that the former arguments have and the present ones have not, as they stand there.
func lostFlags(former, present string) []string {
	now := flagsOf(present)
	var lost []string
	for _, f := range flagsOf(former) {
		has := func(other flag) bool { return other.text == f.text }
		if !slices.Contains(changedFlags(), f.name) && !slices.ContainsFunc(now, has) {
			lost = append(lost, f.text)
		}
	}
	return lost
}

// keptArgs are the unit's arguments, the step's, and behind them what our own file has beside these, such as the
// --provider-id of a machine that was prepared by the kubelet phase.
func keptArgs(m *machine.Machine, unit string, ours []string) (string, error) {
	args := strings.Join(append([]string{unit}, ours...), " ")
	there, err := m.Exists(machine.KubeletDropIn)
	if err != nil || !there {
		return args, err // systemd does not read the file
	}
	own, _, err := m.UnitVariable("EnvironmentFile="+machine.KubeletEnvFile, configArgs, "")
	if err != nil {
		return "", err
	}
	return strings.Join(append([]string{args}, lostFlags(own, args)...), " "), nil
}

// keepsFlags tells which flag a kubelet runs without that it had in its former process.
func keepsFlags(former, now *machine.Kubelet) error {
	if former == nil {
		return nil // it has just ended: nothing is known of it
	}
	if lost := lostFlags(kubeletArgs(former), kubeletArgs(now)); len(lost) > 0 {
		return fmt.Errorf("it runs without %s, which it had before", strings.Join(lost, " "))
	}
	return nil
}

// kubeletArgs is a kubelet's command line without the program.
func kubeletArgs(k *machine.Kubelet) string { return strings.Join(k.Args[1:], " ") }
