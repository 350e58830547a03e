package main

import (
	"cmp"
	"context"
	"errors"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/phases/journal"
)

// interrupted says that it was the end that somebody asked for which ended a command, and where that was. The exit code
// stays what it is for what was not done.
func interrupted(ctx context.Context, cmd *cobra.Command, err *finding.Error) *finding.Error {
	text := "interrupted: " + err.Error()
	for _, end := range []error{context.Canceled, context.Cause(ctx)} {
		text = strings.ReplaceAll(text, ": "+end.Error(), "")
	}
	return &finding.Error{Code: err.Code, Err: errors.New(text), Hint: cmp.Or(err.Hint, goesOn(cmd))}
}

// goesOn is the hint for commands that find what they have done, and do the rest. Others have nothing to go on with.
func goesOn(cmd *cobra.Command) string {
	if trial := cmd.Flags().Lookup("dry-run"); trial != nil && trial.Value.String() == "true" {
		return ""
	}
	path := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().CommandPath()+" ")
	switch {
	case journal.OperationOf(path).Resumes:
		return "the same command resumes"
	case path == "wait":
		return "nothing was changed; ccmadm status shows the state of the nodes"
	}
	return ""
}

// outliveReader is for what changes kubelets: it goes on without somebody who reads what it says, as behind an SSH
// connection that is lost. Its next line would end it, before a kubelet that does not come back has its former flags.
func outliveReader() { signal.Ignore(syscall.SIGPIPE) }
