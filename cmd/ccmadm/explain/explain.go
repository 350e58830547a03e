// Package explain is `ccmadm explain`: what a field of a document means, or what a finding says and what to do.
//
// Start at [NewCommand]. Fields come from the schemas of docs/schema and from the CustomResourceDefinitions, which are generated
// from the comments of the Go types; findings from the catalogue. Nothing is said here a second time.
//
// Reads: what is embedded in the program. Writes: to the io.Writer that it is given.
// Running it twice: the same text.
// It will not: ask a cluster.
package explain

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
)

// reference is where the pages are.
const reference = "https://github.com/ccmadm/ccmadm/blob/main/docs/reference/"

// NewCommand returns the command. Rules are the findings that the page of lint has.
func NewCommand(out io.Writer, rules []finding.Kind) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "explain FIELD|ID",
		Short: "Explain a field of a configuration, or the ID of a finding",
		Long: `Shows the description of a field, its type, its default and the fields below it; or the title, the cause and the remedy of a
finding, with links. A field is a path such as nodeAgent.enabled. The name of a kind may stand before it: AddressPool.spec.ranges;
without one the CloudConfiguration is looked at first. A finding has an ID, such as A19, or a reason, such as NeverTainted.

Kinds are ` + strings.Join(kindNames(), ", ") + `. No cluster is needed.`,
		Example: `  ccmadm explain nodeAgent.enabled
  ccmadm explain AddressPool.spec
  ccmadm explain A19 -o json`,
		ValidArgsFunction: complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := format.Check(); err != nil {
				return err
			}
			if len(args) != 1 {
				return finding.Usagef("%s: want one field or one ID, got %s", cmd.CommandPath(), finding.Count(len(args), "argument")).
					WithHint("%s nodeAgent.enabled; kinds are %s", cmd.CommandPath(), strings.Join(kindNames(), ", "))
			}
			return Show(out, &format, args[0], rules)
		},
	}
	format.Declare(cmd, output.Text, output.JSON, output.YAML)
	return cmd
}

// Show writes what there is to say of a name: an ID before a field, and a field before a reason.
func Show(out io.Writer, format *output.Format, name string, rules []finding.Kind) error {
	kind, isFinding := finding.Lookup(name)
	if isFinding && strings.EqualFold(string(kind.ID), name) {
		return showFinding(out, format, kind, rules)
	}
	documents, err := documents()
	if err != nil {
		return err
	}
	field, err := documents.find(name)
	switch {
	case err == nil:
		return format.Write(out, output.Object(field), func() error { return field.writeText(out) })
	case isFinding:
		return showFinding(out, format, kind, rules)
	}
	return err
}

func showFinding(out io.Writer, format *output.Format, kind finding.Kind, rules []finding.Kind) error {
	return format.Write(out, output.Object(kind), func() error {
		if err := kind.Explain(out); err != nil {
			return err
		}
		_, err := fmt.Fprintf(out, "Docs: %s\n", page(kind, rules))
		return err
	})
}

// page is the section of the reference about a finding. Its anchor is that of GitHub for the heading.
func page(kind finding.Kind, rules []finding.Kind) string {
	file := "findings.md"
	if slices.ContainsFunc(rules, func(r finding.Kind) bool { return r.ID == kind.ID }) {
		file = "lint.md"
	}
	anchor := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, string(kind.ID)+": "+kind.Title)
	return reference + file + "#" + anchor
}

// complete offers IDs, and fields of the level that is being typed.
func complete(_ *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var list []cobra.Completion
	for _, k := range finding.Catalogue() {
		if strings.HasPrefix(strings.ToLower(string(k.ID)), strings.ToLower(typed)) {
			list = append(list, cobra.CompletionWithDesc(string(k.ID), k.Title))
		}
	}
	if documents, err := documents(); err == nil {
		list = append(list, documents.completions(typed)...)
	}
	return list, cobra.ShellCompDirectiveNoFileComp
}
