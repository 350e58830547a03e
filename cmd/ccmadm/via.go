package main

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/phases/adoption"
	"github.com/ccmadm/ccmadm/phases/fleet"
)

// declareVia declares how steps on other machines are done.
func declareVia(flags *pflag.FlagSet, via *string, r *fleet.Remote) {
	flags.StringVar(via, "via", string(fleet.ViaHand), "how steps on other machines are done: hand, pods or ssh")
	flags.StringVar(&r.Image, "node-image", ownImage+version,
		"image of the pods of --via pods, whose entrypoint is ccmadm")
	flags.StringVar(&r.SSHUser, "ssh-user", "",
		"user of --via ssh, who has to be root there (default: that of the OpenSSH client)")
	flags.IntVar(&r.Parallel, "parallel", 1, "how many workers are changed at a time; control planes always alone")
}

// again are the flags of a command that another one has to repeat which goes on in the same way.
func again(flags *pflag.FlagSet) []string {
	var args []string
	flags.Visit(func(f *pflag.Flag) {
		if !slices.Contains([]string{"skip", "parallel", "ssh-user", "node-image", "image", "config", "force"}, f.Name) {
			return
		}
		value := f.Value.String()
		if list, is := f.Value.(pflag.SliceValue); is {
			value = strings.Join(list.GetSlice(), ",")
		}
		args = append(args, "--"+f.Name+"="+value)
	})
	return args
}

func declareSkip(flags *pflag.FlagSet, r *fleet.Remote) {
	flags.StringSliceVar(&r.Skip, "skip", nil, "nodes that are left as they are, with commas")
}

func declareNodeTimeout(flags *pflag.FlagSet, adoption *adoption.Adoption) {
	flags.DurationVar(&adoption.NodeTimeout, "node-timeout", fleet.NodeTimeout,
		"how long a kubelet may take to come back")
}

func checkParallel(r *fleet.Remote) error {
	if r.Parallel < 1 {
		return finding.Usagef("read --parallel: %d is less than 1", r.Parallel)
	}
	return nil
}
