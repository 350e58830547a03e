package main

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/observer"
	"github.com/ccmadm/ccmadm/images"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/adoption"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// declareVia declares how steps on other machines are done.
func declareVia(flags *pflag.FlagSet, via *string, r *fleet.Remote) {
	flags.StringVar(via, "via", string(fleet.ViaHand), "how steps on other machines are done: hand, pods or ssh")
	declareWays(flags, r)
	flags.IntVar(&r.Parallel, "parallel", 1, "how many workers are changed at a time; control planes always alone")
}

// declareWays declares what pods and SSH need.
func declareWays(flags *pflag.FlagSet, r *fleet.Remote) {
	flags.StringVar(&r.Image, "node-image", ownImage+version, "image of the pods of --via pods, whose entrypoint is ccmadm")
	flags.StringVar(&r.SSHUser, "ssh-user", "", "user of --via ssh, who has to be root there (default: that of the OpenSSH client)")
}

// again are the flags of a command that another one has to repeat which goes on in the same way.
func again(flags *pflag.FlagSet) []string {
	return flagWords(flags, func(f *pflag.Flag) bool {
		return slices.Contains([]string{"skip", "parallel", "ssh-user", "node-image", "image", "config", "force"}, f.Name)
	})
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

// check refuses flags of --via without it: they ask for every node, and this machine alone would get the images.
func (l *imageLoader) check(flags *pflag.FlagSet) error {
	for _, name := range []string{"node-image", "ssh-user", "parallel", "skip", "address", "kubeconfig"} {
		if l.via == "" && flags.Changed(name) {
			return finding.Usagef("read --%s: it is for --via", name).WithHint("--via ssh or --via pods imports on every node; nothing was imported")
		}
	}
	return nil
}

// everywhere has every node import an archive of images.
func (l *imageLoader) everywhere(ctx context.Context, m *machine.Machine, file *os.File, archive *images.Archive) error {
	l.remote.Via = fleet.Via(l.via)
	if l.remote.Via != fleet.ViaSSH && l.remote.Via != fleet.ViaPods {
		return finding.Usagef("read --via: %q is none of %s, %s", l.via, fleet.ViaSSH, fleet.ViaPods)
	}
	if err := checkParallel(&l.remote); err != nil {
		return err
	}
	env := kubelet.NewNode(m, kubelet.NodeOptions{}, l.streams, version)
	env.Phase, env.Kubeconfig = "images", l.config
	client, err := workflow.Connect(env, machine.AdminConf)
	if err != nil {
		return err
	}
	list, err := workflow.AskNodes(ctx, client)
	if err != nil {
		return observer.Asked(err)
	}
	plan, err := imagePlan(list.Items, workflow.NodeOfKubelet(m), l.remote, archive)
	if err != nil {
		return err
	}
	sum, err := images.FileDigest(file)
	if err != nil {
		return err
	}
	if l.address == "" && l.remote.Via == fleet.ViaPods {
		own, err := m.DefaultAddress()
		if err != nil {
			return finding.Errorf("find the address that pods connect to: %w", err).WithHint("--address names it")
		}
		l.address = own.String()
	}
	return fleet.ImageDelivery{
		Env: env, Client: client, Remote: l.remote, File: file, Digest: sum, Address: l.address,
		Here: func(ctx context.Context) error { return l.here(ctx, m, archive) },
	}.Deliver(ctx, plan)
}

// imagePlan refuses an archive that lacks an image for a node before any node has it.
func imagePlan(list []corev1.Node, here string, remote fleet.Remote, archive *images.Archive) ([]*fleet.Node, error) {
	var plan []*fleet.Node
	for i := range list {
		n := fleet.NewNode(&list[i], here, remote.Skip)
		arch := finding.Clean(list[i].Status.NodeInfo.Architecture)
		if lacks := archive.Lacks(arch); len(lacks) > 0 && arch != "" {
			n.Problems = append(n.Problems, "it is linux/"+arch+", and the archive lacks "+strings.Join(lacks, ", ")+" for it")
		}
		plan = append(plan, n)
	}
	if err := remote.Check(plan); err != nil {
		return nil, err
	}
	return plan, fleet.RefuseProblems(plan, "them without the images")
}
