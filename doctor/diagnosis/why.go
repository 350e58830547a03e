package diagnosis

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// Why is what there is to know about one Node.
type Why struct {
	Node string `json:"node"`
	// State is how far it has come, in words.
	State string `json:"state"`
	// Cause is why the Node is not well; nil: none was found.
	Cause *Cause `json:"cause,omitempty"`
	// Seen is the evidence; without a cause a line about the cluster.
	Seen string `json:"seen"`
	// Rest is what else there is, what is ruled out, and what could not be read.
	Rest string `json:"rest"`

	asFarAsSeen string
}

// Why says of one Node how far it has come, what its cause is, what was seen, what is ruled out or not known, and what to do
// next.
func (d *Diagnosis) Why(name string) Why {
	of := d.Of([]string{name})
	state := "Node/" + finding.Clean(name) + " was not seen"
	if len(of.Nodes) == 1 {
		s := of.Nodes[0]
		words := []string{"Node/" + s.Node, "is", s.State.String(), s.ProviderID, strings.Join(s.InternalIPs, ",")}
		state = strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
	} else if d.Nodes != nil {
		state = "Node/" + finding.Clean(name) + " is " + nodes.Absent.String()
	}
	w := Why{Node: finding.Clean(name), State: state, Cause: of.causeOf(name), Seen: of.Summary, asFarAsSeen: of.asFarAsSeen()}
	if w.Cause != nil {
		w.Seen = w.Cause.Message
	}
	w.Rest = of.rest(w.Cause)
	return w
}

// WriteText writes it in five lines.
func (w Why) WriteText(out io.Writer) error {
	lines := []string{w.State, "cause:  none was found" + w.asFarAsSeen, "seen:   " + w.Seen, "rest:   " + w.Rest, "next:   nothing"}
	if c := w.Cause; c != nil {
		lines[1], lines[4] = fmt.Sprintf("cause:  %s %s: %s", c.ID, c.Title, about(*c)), "next:   "+c.Next
		if c.Next == "" {
			lines[4] = "do:     " + c.Do
		}
	}
	_, err := io.WriteString(out, strings.Join(lines, "\n")+"\n")
	return err
}

// causeOf is the one that the Node itself has, or that explains it; before all others that concern the cluster.
func (d *Diagnosis) causeOf(name string) *Cause {
	has := func(c Cause) bool { return slices.Contains(c.Objects, "Node/"+name) }
	for i, c := range d.Causes {
		if c.Severity == finding.SeverityNote && c.Since != "" { // of a version to come
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
