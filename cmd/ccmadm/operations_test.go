package main

import (
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// TestOperations: what the journal's readers know is known of commands that there are.
func TestOperations(t *testing.T) {
	root := newRoot(workflow.Streams{})
	for _, o := range journal.Operations() {
		if o.Command == journal.CommandUpgradeWorkers {
			continue // a part of upgrade apply
		}
		cmd, rest, err := root.Find(strings.Fields(o.Command))
		if err != nil || len(rest) > 0 || cmd.CommandPath() != "ccmadm "+o.Command {
			t.Errorf("%s: got %q and %q, %v", o.Command, cmd.CommandPath(), rest, err)
		}
	}
}
