package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/completion"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/doctor"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/explain"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/lb"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/lint"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/machines"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/providers"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/rehearse"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/status"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// run executes one command line and returns the exit status. Every error leaves here, as "ccmadm: error: ..." and,
// where the error knows the next step, "ccmadm: hint: ...".
func run(ctx context.Context, s workflow.Streams, args []string) int {
	root := newRoot(s) //nolint:contextcheck // a command has its context from ExecuteContext below
	root.SetArgs(args[1:])
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	if filepath.Base(args[0]) == "kubectl-ccmadm" { // as a kubectl plugin it is called by this name
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl ccmadm"}
	}
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return int(finding.ExitDone)
	case errors.Is(err, usage.ErrFound):
		return int(finding.ExitFound)
	}
	var known *finding.Error
	if !errors.As(err, &known) {
		known = &finding.Error{Code: finding.ExitUsage, Err: err, Hint: "ccmadm --help, or ccmadm COMMAND --help"}
		if ctx.Err() != nil {
			known = &finding.Error{Code: finding.ExitError, Err: err}
		}
	}
	if ctx.Err() != nil {
		known = interrupted(ctx, cmd, known)
	}
	for line := range strings.SplitSeq(known.Error(), "\n") {
		fmt.Fprintf(s.Err, "ccmadm: error: %s\n", line)
	}
	if known.Hint != "" {
		for line := range strings.SplitSeq(known.Hint, "\n") {
			fmt.Fprintf(s.Err, "ccmadm: hint: %s\n", line)
		}
	}
	return int(known.Code)
}

func newRoot(s workflow.Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "ccmadm",
		Short: "kubeadm for external clouds",
		Long: `ccmadm runs extra phases around kubeadm init and kubeadm join, so that a cluster comes up in external cloud mode: every
kubelet in external mode, the cloud-controller-manager with its permissions in place, and every node initialized, or the
reason why not.

On the first machine:        ccmadm init
On every further machine:    ccmadm join HOST:PORT --token ... --discovery-token-ca-cert-hash ...
At any time:                 ccmadm status
When something is wrong:     ccmadm doctor`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	// Cobra's own --version prints with a template, and with that in the program the linker keeps every exported method.
	shown := root.Flags().BoolP("version", "v", false, "version for ccmadm")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if !*shown {
			return cmd.Help()
		}
		_, err := fmt.Fprintln(s.Out, versionLine())
		return err
	}
	addCommands(root, commandGroups(s))
	usage.SetManners(root)
	completion.Register(root)
	return root
}

// commandGroup is a heading in `ccmadm --help`, and the commands below it.
type commandGroup struct {
	id, title string
	commands  []*cobra.Command
}

func commandGroups(s workflow.Streams) []commandGroup {
	return []commandGroup{
		{"bootstrap", "Create and join clusters:", []*cobra.Command{newInit(s), newJoin(s), newReset(s)}},
		{"change", "Change existing clusters:", []*cobra.Command{
			newApply(s), newDiff(s), newAdopt(s), newLeave(s), newUpgrade(s), newJournal(s), newRollback(s), newNode(s), newCerts(s),
		}},
		{"faults", "Find faults:", []*cobra.Command{
			status.NewCommand(s), newWait(s), doctor.NewCommand(s, version, ownImage+version), doctor.NewWhy(s),
			lint.NewCommand(s, version), explain.NewCommand(s.Out, lint.Rules()), doctor.NewSupportBundle(s),
		}},
		{"traffic", "Load balancers and routes:", []*cobra.Command{lb.NewCommand(s, ownImage+version), newRoutes(s)}},
		{"providers", "Providers, machines and configuration:", []*cobra.Command{
			providers.NewCommand(s), rehearse.NewCommand(s, version, ownImage+version),
			newRender(s), newImages(s), machines.NewCommand(s), newConfig(s),
		}},
		{"other", "Other commands:", []*cobra.Command{newVersion(s)}},
	}
}

// addCommands adds the commands in their groups. Cobra's own commands are in the last group.
func addCommands(root *cobra.Command, groups []commandGroup) {
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.id
			root.AddCommand(c)
		}
		root.SetHelpCommandGroupID(g.id)
		root.SetCompletionCommandGroupID(g.id)
	}
}
