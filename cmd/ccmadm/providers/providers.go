// Package providers is `ccmadm provider`: the providers, what each does and needs; and the profile and the credentials that flags of other
// commands name.
//
// Start at [NewCommand] and [Profile]. Profiles are those of package templates.
//
// Reads: profiles, built in or a file; with provider auto the machine's DMI data. Writes: nothing.
// Running it twice: the same text.
// It will not: read the files of credentials; the caller does.
package providers

import (
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/completion"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/doctor/table"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// NewCommand returns the command.
func NewCommand(s workflow.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "provider",
		Short: "List the providers, or show what one does and needs",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newList(s), newShow(s))
	return cmd
}

func newList(s workflow.Streams) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the built-in providers",
		Example: "  ccmadm provider list\n  ccmadm provider list -o wide",
		Args:    usage.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := format.Check(); err != nil {
				return err
			}
			var all []*templates.Profile
			for _, name := range templates.Names() {
				p, err := templates.Load(name)
				if err != nil {
					return err
				}
				all = append(all, p)
			}
			return format.Write(s.Out, output.Object(listProviders(all)), func() error {
				return listProfiles(s.Out, all, format.Is(output.Wide))
			})
		},
	}
	format.Declare(cmd, output.Text, output.Wide, output.JSON, output.YAML)
	return cmd
}

// listProfiles is for people. The wide table also says how each profile was checked.
func listProfiles(out io.Writer, all []*templates.Profile, wide bool) error {
	header := []string{"NAME", "TITLE", "STATUS", "FEATURES", "MODES"}
	if wide {
		header = append(header, "CHECKED WITH")
	}
	w := table.New(out, header...)
	for _, p := range all {
		cells := []any{p.Name, p.Title, p.Status, list(p.Features), list(p.Modes)}
		if wide {
			cells = append(cells, p.Checked.String())
		}
		w.Row(cells...)
	}
	return w.Flush()
}

// listedProvider is what a program may rely on in the output of provider list -o json.
type listedProvider struct {
	Name     string              `json:"name"`
	Title    string              `json:"title"`
	Status   templates.Status    `json:"status"`
	Instead  string              `json:"instead,omitempty"`
	Ended    string              `json:"ended,omitempty"`
	Home     string              `json:"home,omitempty"`
	Features []templates.Feature `json:"features"`
	Modes    []templates.Mode    `json:"modes"`
	Checked  *templates.Checked  `json:"checked,omitempty"`

	Rehearsal templates.Rehearsal `json:"rehearsal"`
}

func listProviders(all []*templates.Profile) []listedProvider {
	var list []listedProvider
	for _, p := range all {
		list = append(list, listedProvider{
			Name:     p.Name,
			Title:    p.Title,
			Status:   p.Status,
			Instead:  p.Instead,
			Ended:    p.Ended,
			Home:     p.Home,
			Features: p.Features,
			Modes:    p.Modes,
			Checked:  p.Checked,

			Rehearsal: p.CanRehearse(),
		})
	}
	return list
}

func newShow(s workflow.Streams) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "show NAME|FILE",
		Short: "Show a provider's features, requirements and known traps",
		Long: "Shows a built-in profile; -o yaml prints it as a template for one of your own. A file is read in the same way as " +
			"by --profile, so this also validates it.",
		Example: "  ccmadm provider show aws\n  ccmadm provider show aws -o yaml > mine.yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return finding.Usagef("provider show: want the name of one provider, got %d; `ccmadm provider list` shows them", len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if err := format.Check(); err != nil {
				return err
			}
			p, text, err := findProfile(args[0])
			if err != nil {
				return err
			}
			if format.Is(output.YAML) { // with its comments
				_, err := s.Out.Write(text)
				return err
			}
			return format.Write(s.Out, output.Object(p), func() error { return showProfile(s.Out, p) })
		},
	}
	format.Declare(cmd, output.Text, output.JSON, output.YAML)
	cmd.ValidArgsFunction = completion.Providers
	return cmd
}

// findProfile takes a file for a file: a name that is built in has neither slash nor dot.
func findProfile(arg string) (*templates.Profile, []byte, error) {
	if !strings.ContainsAny(arg, "/.") {
		text, err := templates.Source(arg)
		if err != nil {
			return nil, nil, finding.Usagef("%w", err)
		}
		p, err := templates.Load(arg)
		return p, text, err
	}
	return readProfile(arg)
}

// readProfile reads a user's own, and returns its text beside it.
func readProfile(arg string) (*templates.Profile, []byte, error) {
	text, err := os.ReadFile(arg)
	if err != nil {
		return nil, nil, finding.Usagef("read profile: %w", err)
	}
	p, err := templates.Parse(arg, text)
	if err != nil {
		return nil, nil, finding.Usagef("%w", err)
	}
	return p, text, nil
}

func list[T ~string](values []T) string {
	var words []string
	for _, v := range values {
		words = append(words, string(v))
	}
	return strings.Join(words, ", ")
}
