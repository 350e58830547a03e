package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/phases/workflow"
)

// Every command that does something has an example, and each line of it is a command that there is, with flags that it has.
func TestExamples(t *testing.T) {
	root := newRoot(workflow.Streams{})
	walk(root, func(cmd *cobra.Command) {
		if cmd.HasAvailableSubCommands() && cmd.Example == "" || cmd.Name() == "completion" || cmd.HasParent() && cmd.Parent().Name() == "completion" {
			return // it shows its help, or is cobra's own
		}
		if cmd.Example == "" {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Example) {
			checkExample(t, root, cmd, line)
		}
	})
}

// checkExample checks each command of a line that is ours.
func checkExample(t *testing.T, root, of *cobra.Command, line string) {
	t.Helper()
	line, _, _ = strings.Cut(line, " # ")
	for part := range strings.FieldsFuncSeq(line, func(r rune) bool { return r == '|' || r == '&' || r == '>' }) {
		words := strings.Fields(part)
		if len(words) == 0 || words[0] != "ccmadm" {
			continue
		}
		cmd, rest, err := root.Find(words[1:])
		if err != nil || cmd == root {
			t.Errorf("%s: the example %q is no command: %v", of.CommandPath(), part, err)
			continue
		}
		for _, word := range rest {
			if word == "--" {
				break // what follows is kubeadm's
			}
			name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
			long := strings.HasPrefix(word, "--") && cmd.Flags().Lookup(name) == nil
			short := len(word) == 2 && word[0] == '-' && cmd.Flags().ShorthandLookup(name) == nil
			if long || short {
				t.Errorf("%s: the example %q has %s, which the command does not know", of.CommandPath(), part, word)
			}
		}
	}
}
