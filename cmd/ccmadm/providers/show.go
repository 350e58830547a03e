package providers

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/templates"
)

func showProfile(out io.Writer, p *templates.Profile) error {
	var b strings.Builder
	section := func(title string, lines ...string) {
		lines = slices.DeleteFunc(lines, func(l string) bool { return l == "" })
		if len(lines) > 0 {
			fmt.Fprintf(&b, "\n%s:\n  %s\n", title, strings.Join(lines, "\n  "))
		}
	}
	fmt.Fprintf(&b, "%s (%s), %s", p.Title, p.Name, p.Status)
	if p.Ended != "" {
		fmt.Fprintf(&b, ", ended on %s", p.Ended)
	}
	if p.Instead != "" {
		fmt.Fprintf(&b, ": %s", p.Instead)
	}
	fmt.Fprintf(&b, "\n%s\n", p.Home)
	section("Checked with", p.Checked.String())
	rehearsal := p.CanRehearse()
	section("Rehearsal", string(rehearsal.Verdict)+": "+rehearsal.Why)
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
	lines = append(lines, p.Image.Rule, p.Image.Late)
	for _, a := range p.Agents {
		lines = append(lines, fmt.Sprintf("on every node %s: %s", a.Image.Repository, a.Why))
	}
	if p.NodeAgent != nil {
		lines = append(lines, fmt.Sprintf("on every node with --node-agent %s", p.NodeAgent.Image.Repository))
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
