package finding

import (
	"fmt"
	"strings"
)

// ExitCode tells a script how a command ended; it is the exit status of ccmadm. [ExitStatuses] has what each one means.
type ExitCode int

// The exit statuses are part of the command line's contract: new meanings get new numbers (docs/adr/0011-exit-codes.md).
const (
	ExitDone      ExitCode = 0
	ExitError     ExitCode = 1
	ExitUsage     ExitCode = 2
	ExitPreflight ExitCode = 3
	ExitNotInTime ExitCode = 4
	ExitRefused   ExitCode = 5
	ExitFound     ExitCode = 6
)

// ExitStatus is a row of the table of exit statuses.
type ExitStatus struct {
	Code ExitCode
	// Name is what commands' help calls it.
	Name string
	// Meaning is the same for all commands.
	Meaning string
	// Next is what a script does then.
	Next string
}

// ExitStatuses returns the table, by number.
func ExitStatuses() []ExitStatus {
	return []ExitStatus{
		{
			ExitDone, "done", "The command did its work and found nothing wrong.",
			"Continue.",
		},
		{
			ExitError, "error", "The command failed. The message says at what. A cluster that does not answer is an error, too.",
			"Read the message. Run the command again: it resumes where it stopped.",
		},
		{
			ExitUsage, "usage", "The command line or a configuration is invalid, or a named file does not exist. Nothing was changed.",
			"Fix the command line or the file.",
		},
		{
			ExitPreflight, "check failed", "A check failed before anything was changed.",
			"Fix what the message names, then run the command again.",
		},
		{
			ExitNotInTime, "not ready", "A Node, the cloud-controller-manager, a load balancer or a route is not ready, or was not in time. " +
				"Nothing is left to apply.",
			"Run the command again, which is safe, or ask `ccmadm status`.",
		},
		{
			ExitRefused, "refused", "Going on could destroy or overwrite something that is not ccmadm's.",
			"Read the hint. `--ignore-preflight-errors` does not change this.",
		},
		{
			ExitFound, "found", "The command compared or examined something, and found a difference or a problem. The output lists them.",
			"Read the output.",
		},
	}
}

// Name is what the table calls it.
func (c ExitCode) Name() string {
	for _, s := range ExitStatuses() {
		if s.Code == c {
			return s.Name
		}
	}
	return fmt.Sprintf("%d", int(c))
}

// ExitReference is the page of exit statuses.
func ExitReference() string {
	var b strings.Builder
	b.WriteString("# Exit statuses\n\nEvery command ends with one of these. A number has the same meaning in all commands.\n\n" +
		"| exit status | name | meaning | next step |\n|---|---|---|---|\n")
	for _, s := range ExitStatuses() {
		fmt.Fprintf(&b, "| %d | %s | %s | %s |\n", s.Code, s.Name, s.Meaning, s.Next)
	}
	b.WriteString("\nThe help of a command names the statuses that need a word about that command. " +
		"The decision is [ADR 11](../adr/0011-exit-codes.md).\n")
	return b.String()
}
