package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/phases"
	"github.com/ccmadm/ccmadm/templates"
)

func newProvider(s phases.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "provider",
		Short: "List the providers, or show what one does and needs",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newProviderList(s), newProviderShow(s))
	return cmd
}

func newProviderList(s phases.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the built-in providers",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			w := tabwriter.NewWriter(s.Out, 0, 0, 3, ' ', 0)
			fmt.Fprintln(w, "NAME\tTITLE\tSTATUS\tFEATURES\tMODES")
			for _, name := range templates.Names() {
				p, err := templates.Load(name)
				if err != nil {
					return err
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", p.Name, p.Title, p.Status, list(p.Features), list(p.Modes))
			}
			return w.Flush()
		},
	}
}

func newProviderShow(s phases.Streams) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "show NAME|FILE",
		Short: "Show a provider's features, requirements and known traps",
		Long:  "Shows a built-in profile, or with -o yaml prints it as a start for one of your own. A file is read as --profile reads it, so this is also its check.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("provider show: want the name of one provider, got %d; `ccmadm provider list` shows them", len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			p, text, err := findProfile(args[0])
			if err != nil {
				return err
			}
			switch output {
			case "text":
				return showProfile(s.Out, p)
			case "yaml":
				_, err := s.Out.Write(text)
				return err
			default:
				return usage("read --output: %q is neither text nor yaml", output)
			}
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or yaml")
	return cmd
}

// findProfile takes a file for a file: a name that is built in has neither slash nor dot.
func findProfile(arg string) (*templates.Profile, []byte, error) {
	if !strings.ContainsAny(arg, "/.") {
		text, err := templates.Source(arg)
		if err != nil {
			return nil, nil, usage("%w", err)
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
		return nil, nil, usage("read profile: %w", err)
	}
	p, err := templates.Parse(arg, text)
	if err != nil {
		return nil, nil, usage("%w", err)
	}
	return p, text, nil
}

func showProfile(out io.Writer, p *templates.Profile) error {
	var b strings.Builder
	section := func(title string, lines ...string) {
		lines = slices.DeleteFunc(lines, func(l string) bool { return l == "" })
		if len(lines) > 0 {
			fmt.Fprintf(&b, "\n%s:\n  %s\n", title, strings.Join(lines, "\n  "))
		}
	}
	fmt.Fprintf(&b, "%s (%s), %s", p.Title, p.Name, p.Status)
	if p.Instead != "" {
		fmt.Fprintf(&b, ": %s", p.Instead)
	}
	fmt.Fprintf(&b, "\n%s\n", p.Home)
	section("Does", list(p.Features))
	section("Runs as", list(p.Modes)+", the first by default")
	section("Image", imageLines(p)...)
	section("Configuration file", configLines(p)...)
	section("Credentials", credentialLines(p)...)
	section("Node name", p.Node.Name)
	section("Provider ID", p.Node.ProviderID, kubeletNeeds(p))
	section("Needs", p.Requirements...)
	section("Known issues", p.Gotchas...)
	_, err := io.WriteString(out, b.String())
	return err
}

func imageLines(p *templates.Profile) []string {
	lines := []string{p.Image.Repository}
	if p.Image.Repository == "" {
		lines[0] = "you name it: controllerManager.image"
	}
	if p.Image.Tag != "" {
		lines = append(lines, "tag "+p.Image.Tag)
	}
	for _, minor := range p.Image.Minors() {
		lines = append(lines, fmt.Sprintf("Kubernetes %s: %s", minor, p.Image.Tags[minor]))
	}
	lines = append(lines, p.Image.Rule)
	for _, a := range p.Agents {
		lines = append(lines, fmt.Sprintf("on every node %s: %s", a.Image.Repository, a.Why))
	}
	return lines
}

func configLines(p *templates.Profile) []string {
	if p.Config == nil {
		return nil
	}
	need := "may be given"
	if p.Config.Required {
		need = "has to be given"
	}
	lines := []string{fmt.Sprintf("%s (%s), %s with --cloud-config", p.Config.File, p.Config.Format, need)}
	if len(p.Config.RequiredKeys) > 0 {
		lines = append(lines, "keys it must have: "+strings.Join(p.Config.RequiredKeys, ", "))
	}
	if p.Config.Example != "" {
		lines = append(lines, "for example")
		for line := range strings.Lines(p.Config.Example) {
			lines = append(lines, "    "+strings.TrimRight(line, "\n"))
		}
	}
	return lines
}

func credentialLines(p *templates.Profile) []string {
	var lines []string
	for _, c := range p.Credentials {
		need := ""
		if c.Required {
			need = " (required)"
		}
		lines = append(lines, fmt.Sprintf("%s%s: %s", c.Key, need, c.Why))
	}
	return lines
}

func kubeletNeeds(p *templates.Profile) string {
	if p.Node.KubeletProviderID {
		return "the kubelet needs --provider-id; it is set from the metadata service unless you do"
	}
	return ""
}

func list[T ~string](values []T) string {
	var words []string
	for _, v := range values {
		words = append(words, string(v))
	}
	return strings.Join(words, ", ")
}
