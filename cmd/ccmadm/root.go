package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/finding"
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
	case errors.Is(err, errFound):
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
		Long: `ccmadm runs extra phases around kubeadm init and kubeadm join, so that a cluster in external cloud mode comes up
right the first time: every kubelet in external mode, the cloud-controller-manager with its permissions in place, every node
initialized, or a reason why not.

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
	setManners(root)
	return root
}

// noArgs is for commands whose files are given with a flag, which people forget.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := finding.Usagef("%s: unexpected argument %q", cmd.CommandPath(), args[0])
	if cmd.Flags().ShorthandLookup("f") != nil {
		return err.WithHint("a file is given with -f: %s -f %s", cmd.CommandPath(), args[0])
	}
	return err.WithHint("%s --help", cmd.CommandPath())
}
