package nodes

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/fatih/color"
	"github.com/mattn/go-isatty"
)

// Renderer shows how nodes get on.
type Renderer interface {
	// Show takes one change.
	Show(Status)
	// Close returns the first error there was in writing.
	Close() error
}

// Table shows one row per node. On a terminal the rows are redrawn in place; elsewhere each change is a line.
type Table struct {
	out  io.Writer
	live bool
	rows []Status
	err  error
	// drawn is how many lines the cursor has to go up.
	drawn int
}

var _ Renderer = (*Table)(nil)

// liveRows is the most that surely fits on a screen. Larger clusters get lines.
const liveRows = 20

// NewTable returns a table for out.
func NewTable(out io.Writer) *Table {
	f, ok := out.(*os.File)
	return &Table{out: out, live: ok && isatty.IsTerminal(f.Fd())}
}

// Show takes one change.
func (t *Table) Show(s Status) {
	i, known := slices.BinarySearchFunc(t.rows, s.Node, func(r Status, name string) int { return strings.Compare(r.Node, name) })
	switch {
	case !known:
		t.rows = slices.Insert(t.rows, i, s)
	case s.same(t.rows[i]):
		return // what comes is a cause, and that is for the error to tell
	default:
		t.rows[i] = s
	}
	if !t.live || len(t.rows) > liveRows {
		t.write(line(s))
		return
	}
	t.redraw()
}

// Close returns the first error there was in writing.
func (t *Table) Close() error { return t.err }

func line(s Status) string {
	text := s.Node + " " + s.State.String()
	if s.ProviderID != "" {
		text += " " + s.ProviderID
	}
	if len(s.InternalIPs) > 0 {
		text += " " + strings.Join(s.InternalIPs, ",")
	}
	return text + "\n"
}

// redraw writes all rows over the last ones. Wrapping is off meanwhile: a row that takes two lines would be missed.
func (t *Table) redraw() {
	var b strings.Builder
	b.WriteString("\x1b[?7l")
	if t.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", t.drawn)
	}
	widths := []int{len("NODE"), len("INITIALIZED"), len("PROVIDER-ID")}
	for _, r := range t.rows {
		widths[0], widths[2] = max(widths[0], len(r.Node)), max(widths[2], len(r.ProviderID))
	}
	row := func(node, state, id, ip string) {
		fmt.Fprintf(&b, "%-*s  %s  %-*s  %s\n", widths[0], node, state, widths[2], id, ip)
	}
	row("NODE", fmt.Sprintf("%-*s", widths[1], "STATE"), "PROVIDER-ID", "INTERNAL-IP")
	for _, r := range t.rows {
		// The padding is part of the coloured text, or escape codes would count as columns.
		state := shade(r.State).Sprint(fmt.Sprintf("%-*s", widths[1], r.State))
		row(r.Node, state, cmp.Or(r.ProviderID, "-"), cmp.Or(strings.Join(r.InternalIPs, ","), "-"))
	}
	b.WriteString("\x1b[?7h")
	t.write(b.String())
	t.drawn = len(t.rows) + 1
}

func shade(s State) *color.Color {
	switch {
	case s >= Addressed:
		return color.New(color.FgGreen)
	case s <= Registered:
		return color.New(color.FgRed)
	default:
		return color.New(color.FgYellow)
	}
}

func (t *Table) write(text string) {
	if _, err := io.WriteString(t.out, text); err != nil && t.err == nil {
		t.err = fmt.Errorf("show nodes: %w", err)
	}
}
