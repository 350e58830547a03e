package kubeadm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// LeftOut is what kubeadm is told not to do in an upgrade.
type LeftOut struct {
	// Phases are those that it skips.
	Phases []string
	// All says that it changes nothing, and ends well all the same: a dry run, or its help.
	All bool
}

// LeftOutOfUpgrade reads that from the arguments of `kubeadm upgrade apply` or `node`, and from its configuration, which
// may be nil. As for kubeadm, phases of the flag are in place of the configuration's. An argument that is no flag is an error:
// `phase NAME` does a part of the upgrade.
func LeftOutOfUpgrade(command string, args []string, f *File) (LeftOut, error) {
	flags, err := readUpgradeFlags(command, args)
	if err != nil {
		return LeftOut{}, err
	}
	left := LeftOut{Phases: flags.skip, All: flags.help}
	if f == nil {
		return left, nil
	}
	if len(left.Phases) == 0 {
		left.Phases = f.list(upgradeConfigKind, command, "skipPhases")
	}
	dry := f.text(upgradeConfigKind, command, "dryRun")
	left.All = left.All || dry != "" && dry != "false"
	return left, nil
}

// UpgradePatches are the directories in which `kubeadm upgrade` with the command, apply or node, looks for patches, by its
// arguments and by its configuration, which may be nil; empty: none.
func UpgradePatches(command string, args []string, f *File) (argument, configured string, err error) {
	flags, err := readUpgradeFlags(command, args)
	if err != nil || f == nil {
		return flags.patches, "", err
	}
	return flags.patches, f.text(upgradeConfigKind, command, "patches", "directory"), nil
}

// upgradeFlags are those of `kubeadm upgrade` that ccmadm goes by.
type upgradeFlags struct {
	skip    []string
	help    bool
	patches string
}

func readUpgradeFlags(command string, args []string) (told upgradeFlags, err error) {
	flags := pflag.NewFlagSet(command, pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.StringSliceVar(&told.skip, "skip-phases", nil, "")
	flags.BoolVarP(&told.help, "help", "h", false, "")
	flags.BoolP("yes", "y", false, "") // of a flag that is not declared the next word would be the value
	flags.BoolP("force", "f", false, "")
	for _, name := range []string{
		"allow-experimental-upgrades", "allow-release-candidate-upgrades", "certificate-renewal", "dry-run", "etcd-upgrade",
	} {
		flags.Bool(name, false, "")
	}
	flags.StringVar(&told.patches, "patches", "", "")
	if err := flags.Parse(args); err != nil {
		return told, fmt.Errorf("read the flags of kubeadm upgrade %s: %w", command, err)
	}
	if flags.NArg() > 0 {
		return told, fmt.Errorf("read the flags of kubeadm upgrade %s: unexpected argument %q", command, flags.Arg(0))
	}
	return told, nil
}

// Whole tells whether what is done is an upgrade of the machine all the same: an add-on that is skipped by its name is
// somebody else's, and the phases before and behind the upgrade change nothing that stays behind.
func (l LeftOut) Whole() bool {
	return !l.All && !slices.ContainsFunc(l.Phases, func(phase string) bool {
		return phase != "preflight" && phase != "post-upgrade" && !strings.HasPrefix(phase, "addon/")
	})
}
