package diagnosis

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/fatih/color"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// summary is a line about the cluster.
func (v *view) summary() string {
	parts := []string{v.countNodes()}
	if v.Host != nil {
		parts = append(parts, "on machine "+v.Host.Name)
	}
	if v.notSeen(partCluster) != nil {
		return finding.Clean(strings.Join(parts, ", "))
	}
	if v.Version != "" {
		parts = append(parts, "Kubernetes "+v.Version)
	}
	switch m := v.main(); {
	case m != nil:
		parts = append(parts, m.object+provider(m))
	case v.notSeen(partPods) != nil || v.notSeen(partDeployments) != nil || v.notSeen(partDaemonSets) != nil:
		parts = append(parts, "the cloud-controller-manager not seen")
	default:
		parts = append(parts, "no cloud-controller-manager")
	}
	if leader := v.facts.Leader(); leader != "" {
		parts = append(parts, "led by "+leader)
	}
	return finding.Clean(strings.Join(parts, ", "))
}

func provider(m *manager) string {
	if m.Profile == nil {
		return ""
	}
	return " (" + m.Profile.Name + ")"
}

func (v *view) countNodes() string {
	if v.notSeen(partNodes) != nil {
		return "Nodes not seen"
	}
	ready := 0
	for i := range v.Nodes {
		if nodestatus.IsReady(&v.Nodes[i]) {
			ready++
		}
	}
	return fmt.Sprintf("%s, %d Ready", finding.Count(len(v.Nodes), "Node"), ready)
}

// Of is what concerns these Nodes, and what concerns all: a cause that is about other Nodes alone is left out.
func (d *Diagnosis) Of(names []string) *Diagnosis {
	if len(names) == 0 {
		return d
	}
	about := func(c Cause) bool {
		return slices.ContainsFunc(c.Objects, func(o string) bool {
			name, isNode := strings.CutPrefix(o, "Node/")
			return !isNode || slices.Contains(names, name)
		})
	}
	of := *d
	of.Causes, of.Nodes = nil, nil
	for _, c := range d.Causes {
		if about(c) || slices.ContainsFunc(c.Consequences, about) {
			of.Causes = append(of.Causes, c)
		}
	}
	for _, name := range names {
		i := slices.IndexFunc(d.Nodes, func(s nodes.Status) bool { return s.Node == name })
		if i >= 0 {
			of.Nodes = append(of.Nodes, d.Nodes[i])
			continue
		}
		if d.Nodes == nil { // they were not seen
			continue
		}
		absent := finding.NodeAbsent.New("Node/"+finding.Clean(name), "the Node does not exist")
		absent.Next = "kubectl get nodes"
		of.Causes = append(of.Causes, Cause{Finding: absent, Objects: []string{absent.Object}})
	}
	return &of
}

// Count is how many errors and warnings there are, consequences left out. Notes are not counted.
func (d *Diagnosis) Count() (errors, warnings int) {
	for _, c := range d.Causes {
		switch c.Severity {
		case finding.SeverityError:
			errors++
		case finding.SeverityWarning:
			warnings++
		case finding.SeverityNote:
		}
	}
	return errors, warnings
}

// Wrong reports whether something is wrong now: a note is about a version of Kubernetes to come.
func (d *Diagnosis) Wrong() bool {
	errors, warnings := d.Count()
	return errors+warnings > 0
}

// Findings are all, consequences after their causes, one for each object.
func (d *Diagnosis) Findings() []finding.Finding {
	var list []finding.Finding
	add := func(c Cause) {
		for _, object := range c.Objects {
			f := c.Finding
			f.Object = object
			list = append(list, f)
		}
	}
	for _, c := range d.Causes {
		add(c)
		for _, k := range c.Consequences {
			add(k)
		}
	}
	return list
}

// Blind says that Nodes, or what every cluster has in kube-system, could not be read, or that no kubelet answered: that nothing was found then
// is no sign of health. Of a machine that does not know where its cluster is, nothing more was asked than what it tells itself.
func (d *Diagnosis) Blind() bool { return len(d.Unread()) > 0 }

// Unread are the parts for which a diagnosis is blind.
func (d *Diagnosis) Unread() []string {
	var parts []string
	for _, n := range d.NotSeen {
		switch n.What {
		case partCluster:
			if n.Reason != reasonNotAsked {
				return []string{partNodes}
			}
		case partKubelets:
			if d.noKubelet {
				parts = append(parts, n.What)
			}
		case HostNodePart: // where no cluster was asked, it is all that tells how the kubelet stands with its API server
			if slices.ContainsFunc(d.NotSeen, func(n NotSeen) bool { return n.What == partCluster }) {
				parts = append(parts, "Node of this machine")
			}
		case partNodes, partPods, partDeployments, partDaemonSets, partLeases:
			parts = append(parts, n.What)
		}
	}
	return parts
}

// BlindProbe says that Nodes were to ask the network, and that some could not, or not for all: that nothing was found then is no sign of
// health.
func (d *Diagnosis) BlindProbe() bool { return d.blindProbe }

// Kinds are the entries of the catalogue that findings have, each once.
func Kinds(findings []finding.Finding) []finding.Kind {
	var list []finding.Kind
	for _, f := range findings {
		if !slices.ContainsFunc(list, func(k finding.Kind) bool { return k.ID == f.ID }) {
			list = append(list, f.ID.Kind())
		}
	}
	return list
}

// paint colours a word, or does not.
type paint func(color.Attribute, string) string

func painter(colour bool) paint {
	return func(a color.Attribute, text string) string {
		c := color.New(a)
		c.EnableColor()
		if !colour {
			c.DisableColor()
		}
		return c.Sprint(text)
	}
}

// WriteText writes a diagnosis for people: each cause with what follows from it, and what to do last.
func (d *Diagnosis) WriteText(out io.Writer, colour bool) error {
	var b strings.Builder
	p := painter(colour)
	b.WriteString(d.Summary + "\n")
	for _, n := range d.NotSeen {
		reason := string(n.Reason)
		if reason == "" {
			reason = n.Message
		}
		fmt.Fprintf(&b, "not seen: %s: %s\n", n.What, finding.Clean(reason))
	}
	if len(d.NotLooked) > 0 {
		fmt.Fprintf(&b, "not looked for: %s\n", strings.Join(slices.Sorted(maps.Keys(d.NotLooked)), ", "))
	}
	for _, line := range d.Probed {
		b.WriteString(line + "\n")
	}
	if !d.Wrong() {
		b.WriteString("nothing is wrong" + d.asFarAsSeen() + "\n")
	}
	for _, c := range d.Causes { // notes last
		b.WriteString("\n")
		d.writeCause(&b, p, c)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (d *Diagnosis) asFarAsSeen() string {
	if len(d.NotSeen) > 0 || d.unprobed {
		return " in what was seen"
	}
	return ""
}

func (d *Diagnosis) writeCause(b *strings.Builder, p paint, c Cause) {
	shade := color.FgYellow
	switch c.Severity {
	case finding.SeverityError:
		shade = color.FgRed
	case finding.SeverityNote:
		shade = color.FgCyan
	case finding.SeverityWarning:
	}
	fmt.Fprintf(b, "%s %s: %s\n", p(shade, string(c.Severity)+" "+string(c.ID)), c.Title, about(c))
	fmt.Fprintf(b, "    %s\n", c.Message)
	for _, k := range c.Consequences {
		fmt.Fprintf(b, "    %s %s: %s\n", p(color.Faint, "hence "+string(k.ID)), k.Title, about(k))
	}
	fmt.Fprintf(b, "    do: %s\n", c.Do)
	if c.Next != "" {
		fmt.Fprintf(b, "    %s %s\n", p(color.Bold, "next:"), c.Next)
	}
}

// about names the objects of a cause: of one kind with their number.
func about(c Cause) string {
	if len(c.Objects) <= 1 {
		return c.Object
	}
	kind, _, _ := strings.Cut(c.Object, "/")
	var names []string
	for _, o := range c.Objects {
		k, name, _ := strings.Cut(o, "/")
		if k != kind {
			return some(c.Objects, 5)
		}
		names = append(names, name)
	}
	return fmt.Sprintf("%d %ss: %s", len(names), kind, some(names, 5))
}
