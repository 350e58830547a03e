package upgrade

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/minors"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/upgrade/planner"
)

// Check refuses a way that is misspelled, and what cannot be upgraded from here: half an upgrade, of which nobody would
// see when it is whole.
func (u *Upgrade) Check() error {
	way := u.Remote
	way.Skip = nil // which takes the Nodes
	if err := way.Check(nil); err != nil {
		return err
	}
	for _, command := range []string{"apply", "node"} {
		left, err := u.leftOut(command)
		if err != nil {
			return finding.Usagef("%w", err)
		}
		if !u.ByHand() && !left.Whole() {
			return finding.Usagef("read --via: kubeadm's flags or configuration skip phases, or ask for a dry run: " +
				"the upgrade would be partial").WithHint("leave skipPhases and dryRun out of kubeadm's flags and configuration, or --via. " +
				"Nothing was changed")
		}
	}
	where, err := u.patches("node")
	if err != nil || u.ByHand() {
		return err
	}
	return where.refuseRelative()
}

// leftOut is what one of kubeadm's commands is told not to do, and ends well all the same.
func (u *Upgrade) leftOut(command string) (kubeadm.LeftOut, error) {
	file, err := u.file()
	if err != nil {
		return kubeadm.LeftOut{}, err
	}
	return kubeadm.LeftOutOfUpgrade(command, u.Rest, file)
}

// file is kubeadm's configuration; nil: there is none.
func (u *Upgrade) file() (*kubeadm.File, error) {
	if u.ConfigText == "" {
		return nil, nil
	}
	return kubeadm.Parse(u.Config, []byte(u.ConfigText))
}

// restOfOthers are the flags of `kubeadm upgrade apply` that `kubeadm upgrade node` has, too.
func restOfOthers(rest []string, withoutPatches bool) []string {
	var list []string
	takes := false
	for _, word := range rest {
		if name, _, _ := strings.Cut(word, "="); strings.HasPrefix(word, "-") {
			takes = slices.Contains([]string{
				"--certificate-renewal", "--etcd-upgrade", "--ignore-preflight-errors", "--patches", "--skip-phases", "--v", "-v",
			}, name) && (name != "--patches" || !withoutPatches)
		}
		if takes {
			list = append(list, word)
		}
	}
	return list
}

// patches are the directories in which kubeadm looks for patches on other machines, by its arguments and by its
// configuration; empty: none.
type patches struct{ argument, configured string }

func (u *Upgrade) patches(command string) (patches, error) {
	file, err := u.file()
	if err != nil {
		return patches{}, err
	}
	argument, configured, err := kubeadm.UpgradePatches(command, u.Rest, file)
	return patches{argument, configured}, err
}

// lintPatches judges the patches that kubeadm takes on this machine in an upgrade to the target, in a cluster with those uses.
func (u *Upgrade) lintPatches(m *machine.Machine, uses []planner.Use) ([]finding.Finding, error) {
	command := "node"
	if u.first() {
		command = "apply"
	}
	p, err := u.patches(command)
	if err != nil {
		return nil, err
	}
	dir := cmp.Or(p.argument, p.configured) // as for kubeadm, an argument is in place of the configuration's
	if dir == "" {
		return nil, nil
	}
	if filepath.IsAbs(dir) { // else it depends on where the command is run
		dir = m.Path(dir)
	}
	minor := fmt.Sprintf("%d.%d", u.target.Major(), u.target.Minor())
	list, err := kubeadm.LintPatches(dir, kubeadm.PatchedMinors{Kubeadm: minor, Components: minor, Runs: runsWith(uses, minor)})
	if errors.Is(err, fs.ErrNotExist) {
		f := finding.PatchFile.New("", err.Error())
		return []finding.Finding{f}, nil
	}
	return list, err
}

// runsWith tells arguments and feature gates that are in use, as far as the uses have all of a component: static pods'. One that
// runs with anything that no minor has, up to this one, is a vendor's program, whose next minor may have more of that kind.
func runsWith(uses []planner.Use, minor string) func(component, name string) bool {
	return func(component, name string) bool {
		switch c := planner.Component(component); c {
		case planner.APIServer, planner.ControllerManager, planner.Scheduler, planner.Etcd:
			return slices.ContainsFunc(uses, func(u planner.Use) bool {
				return u.Component == c && u.Node != "" && (u.Name == name || isVendors(u, minor))
			})
		}
		return true
	}
}

// isVendors tells of an argument or a feature gate that upstream's component has in no minor up to this one.
func isVendors(u planner.Use, minor string) bool {
	refusal, _ := minors.Load().Flag(string(u.Component), u.Name, minor)
	if gate, is := strings.CutPrefix(u.Name, planner.GatePrefix); is {
		refusal, _ = minors.Load().Gate(string(u.Component), gate, "", minor)
	}
	return refusal == minors.Unknown
}

// flags have a machine say whether it has them.
func (p patches) flags() []string {
	var list []string
	for _, dir := range []string{p.argument, p.configured} {
		if dir != "" {
			list = append(list, "--has="+dir)
		}
	}
	return list
}

// refuseRelative finds a directory that depends on where a command is run: on each machine it would be another one.
func (p patches) refuseRelative() error {
	for _, dir := range []string{p.argument, p.configured} {
		if dir != "" && !filepath.IsAbs(dir) {
			return finding.Usagef("read --via: the --patches directory %q is a relative path, and each machine has another one", dir).
				WithHint("give an absolute path that exists on each machine. Nothing was changed")
		}
	}
	return nil
}

// lackedBy is the directory that a machine has not. A worker is upgraded without: what it has of kubeadm's is its
// kubelet's configuration, and the argument may be for control planes; but its configuration is one text for all.
func (p patches) lackedBy(o *other) (dir string, without bool) {
	if o.report == nil {
		return "", false
	}
	lacks := func(dir string) bool { return dir != "" && slices.Contains(o.report.Lacks, dir) }
	switch {
	case lacks(p.configured):
		return p.configured, false
	case lacks(p.argument) && o.ControlPlane:
		return p.argument, false
	}
	return "", lacks(p.argument)
}
