// Package usage is how commands are used: the exit statuses that their help lists, what is said of a command, a flag or an argument that
// is mistyped, and which errors are none of these.
//
// Start at [SetManners] and [ExitStatuses].
//
// Reads: commands and their flags. Writes: nothing.
// Running it twice: the same text.
// It will not: guess a command and run it; it asks whether that was meant.
package usage

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ccmadm/ccmadm/api/finding"
)

// knownCommand is for commands that only have others below them.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	err := finding.Usagef("unknown command %q for %q", args[0], cmd.CommandPath())
	if name := finding.Nearest(args[0], names); name != "" {
		return err.WithHint("did you mean `%s %s`?", cmd.CommandPath(), name)
	}
	if cmd.Flags().ShorthandLookup("f") != nil {
		return NoArgs(cmd, args) // apply does something itself, with a file
	}
	return err.WithHint("%s --help", cmd.CommandPath())
}

// knownFlag is cobra's error about flags, with the flag that was probably meant.
func knownFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
		return finding.Usagef("%s: %w", cmd.CommandPath(), err).WithHint("%s --help", cmd.CommandPath())
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	name := finding.Nearest(unknown.GetSpecifiedName(), names)
	if name == "" {
		return finding.Usagef("%s: %w", cmd.CommandPath(), err).WithHint("%s --help", cmd.CommandPath())
	}
	return finding.Usagef("%s: %w", cmd.CommandPath(), err).WithHint("did you mean --%s?", name)
}

// SetManners gives every command the same answers to what is mistyped, and its help as text: kubeadm's runner sets the
// list of phases in Markdown.
func SetManners(root *cobra.Command) {
	root.SetFlagErrorFunc(knownFlag)
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		cmd.Long = strings.ReplaceAll(cmd.Long, "```\n", "")
		cmd.Long = strings.TrimSuffix(cmd.Long, "\n```")
		help(cmd, args)
	})
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		// Init and join do something themselves, and doctor, whose only command is hidden: its arguments are names of Nodes.
		if cmd.HasAvailableSubCommands() && cmd.Name() != "init" && cmd.Name() != "join" {
			cmd.Args = knownCommand
		}
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit(root)
}

// NoArgs is for commands whose files are given with a flag, which people forget.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := finding.Usagef("%s: unexpected argument %q", cmd.CommandPath(), args[0])
	if cmd.Flags().ShorthandLookup("f") != nil {
		return err.WithHint("a file is given with -f: %s -f %s", cmd.CommandPath(), args[0])
	}
	return err.WithHint("%s --help", cmd.CommandPath())
}
