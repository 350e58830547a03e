package lbmove

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
)

// shown prints the plan at the end of a run that has changed nothing, or as an object, and returns how the run ended.
func (m *move) shown(p *Plan, ended error) error {
	out := m.streams.Out
	err := m.output.Write(out, output.Object(p), func() error {
		switch {
		case p.State == Moved && len(p.Changes) == 0 && len(p.Checks) == 0:
			rest := ": nothing to do"
			if m.releases(p) {
				rest = ""
			}
			fmt.Fprintf(out, "%s has moved from Service/%s to Service/%s%s\n", strings.Join(p.Addresses, ", "), p.Old, p.New, rest)
			p.notes(out)
		case p.State == Moved: // said when it was
			if ended == nil && m.releaseOld {
				fmt.Fprintf(out, "Service/%s is of type ClusterIP now, without an address\n", p.Old)
			}
		case p.State == Planned:
			p.show(out)
			if m.dryRun && ended == nil {
				fmt.Fprintln(out, "Nothing was changed.")
			}
		case m.dryRun && ended == nil:
			fmt.Fprintf(out, "%s is on its way from Service/%s to Service/%s\n", strings.Join(p.Addresses, ", "), p.Old, p.New)
		}
		return nil
	})
	if ended != nil {
		return ended
	}
	return err
}

// show prints what would change, and what is against it.
func (p *Plan) show(out io.Writer) {
	if len(p.Changes) > 0 {
		fmt.Fprintf(out, "Move %s from Service/%s to Service/%s\n", strings.Join(p.Addresses, ", "), p.Old, p.New)
	}
	for _, c := range p.Changes {
		if c.After == "" {
			fmt.Fprintf(out, "  Service/%s: remove annotation %s\n", c.Service, c.Annotation)
			continue
		}
		fmt.Fprintf(out, "  Service/%s: set annotation %s to %s\n", c.Service, c.Annotation, c.After)
	}
	p.notes(out)
	for _, c := range p.Checks {
		mark := ""
		if c.Force {
			mark = " (--force skips this check)"
		}
		fmt.Fprintf(out, "  failed: %s%s\n    do: %s\n", c.Message, mark, c.Do)
	}
}

func (p *Plan) notes(out io.Writer) {
	for _, note := range p.Notes {
		fmt.Fprintf(out, "  note: %s\n", note)
	}
}

// began is said before the command waits.
func (m *move) began(p *Plan) {
	if !m.output.Is(output.Text) {
		return
	}
	if p.State == UnderWay {
		fmt.Fprintf(m.streams.Out, "%s is on its way from Service/%s to Service/%s\n", strings.Join(p.Addresses, ", "), p.Old, p.New)
		return
	}
	p.show(m.streams.Out)
}

func (m *move) moved(p *Plan, took time.Duration) {
	if m.output.Is(output.Text) {
		fmt.Fprintf(m.streams.Out, "Moved after %s. Back: ccmadm lb move %s %s\n", took.Round(10*time.Millisecond), p.New, p.Old)
	}
}
