package diagnosis

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// WriteWhy says of one Node in five lines how far it has come, what its cause is, what was seen, what is ruled out or
// not known, and what to do next. It tells whether something is wrong.
func (d *Diagnosis) WriteWhy(out io.Writer, name string) (wrong bool, err error) {
	of := d.Of([]string{name})
	state := "Node/" + finding.Clean(name) + " was not seen"
	if len(of.Nodes) == 1 {
		s := of.Nodes[0]
		words := []string{"Node/" + s.Node, "is", s.State.String(), s.ProviderID, strings.Join(s.InternalIPs, ",")}
		state = strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
	} else if d.Nodes != nil {
		state = "Node/" + finding.Clean(name) + " is " + nodes.Absent.String()
	}
	c := of.causeOf(name)
	lines := []string{
		state,
		"cause:  none was found" + of.asFarAsSeen(),
		"seen:   " + of.Summary,
		"rest:   " + of.rest(nil),
		"next:   nothing",
	}
	if c != nil {
		lines = []string{
			state,
			fmt.Sprintf("cause:  %s %s: %s", c.ID, c.Title, about(*c)),
			"seen:   " + c.Message,
			"rest:   " + of.rest(c),
			"next:   " + c.Next,
		}
		if c.Next == "" {
			lines[4] = "do:     " + c.Do
		}
	}
	_, err = io.WriteString(out, strings.Join(lines, "\n")+"\n")
	return c != nil, err
}

// causeOf is the one that the Node itself has, or that explains it; before all others that concern the cluster.
func (d *Diagnosis) causeOf(name string) *Cause {
	has := func(c Cause) bool { return slices.Contains(c.Objects, "Node/"+name) }
	for i, c := range d.Causes {
		if c.Severity == finding.SeverityNote {
			continue
		}
		if has(c) || slices.ContainsFunc(c.Consequences, has) {
			return &d.Causes[i]
		}
	}
	waits := len(d.Nodes) == 1 && d.Nodes[0].State < nodes.Addressed
	if waits && d.Wrong() {
		return &d.Causes[0]
	}
	return nil
}

// rest is what else there is, what is ruled out, and what is not known.
func (d *Diagnosis) rest(cause *Cause) string {
	var parts []string
	for _, c := range d.Causes {
		if c.Severity != finding.SeverityNote && (cause == nil || c.ID != cause.ID || c.Object != cause.Object) {
			parts = append(parts, string(c.ID)+" "+c.Title+": "+about(c))
		}
	}
	if cause != nil {
		for _, k := range cause.Consequences {
			parts = append(parts, "hence "+string(k.ID)+" "+k.Title)
		}
	}
	for _, n := range d.NotSeen {
		parts = append(parts, "not seen: "+n.What)
	}
	if len(parts) == 0 {
		return "the API server reports no other problem"
	}
	return strings.Join(parts, "; ")
}
