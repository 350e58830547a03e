package nodes

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/ccmadm/ccmadm/api/finding"
)

// Display shows how nodes get on.
type Display interface {
	// Show takes one change.
	Show(Status)
	// Tell takes what is wrong beside nodes.
	Tell(finding.Finding)
	// Close ends it, and returns the first error there was in writing.
	Close() error
}

// Formats are those of NewDisplay.
func Formats() []string { return []string{"text", "wide", "json", "yaml"} }

// NewDisplay shows changes as they come, in one of the formats; text for a format that there is not.
func NewDisplay(format string, out io.Writer) Display {
	switch format {
	case "json":
		return NewJSONLines(out)
	case "yaml":
		return NewYAML(out)
	}
	return NewTable(out, format == "wide")
}

// Table shows one row per node. On a terminal the rows are redrawn in place; elsewhere each change is a line, below one
// header, in columns that start where the header's do.
type Table struct {
	out io.Writer
	// size is that of the terminal; nil where there is none.
	size    func() (width, height int)
	columns []column
	rows    []Status
	err     error
	// once collects rows until Close.
	once bool
	// drawn is how many lines the cursor has to go up; headed that the header is there.
	drawn  int
	headed bool
}

var _ Display = (*Table)(nil)

// NewTable returns a table for out. A wide one has zone and version.
func NewTable(out io.Writer, wide bool) *Table {
	return &Table{out: out, size: terminalSize(out), columns: columns(wide)}
}

// NewList returns a table that is shown once, when it is closed.
func NewList(out io.Writer, wide bool) *Table {
	t := NewTable(out, wide)
	t.once = true
	return t
}

func terminalSize(out io.Writer) func() (width, height int) {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return func() (width, height int) {
		width, height, err := term.GetSize(int(f.Fd()))
		if err != nil || width <= 0 || height <= 0 {
			return 80, 24 // some terminals do not tell
		}
		return width, height
	}
}

// Show takes one change.
func (t *Table) Show(s Status) {
	if t.once {
		t.rows = append(t.rows, s)
		return
	}
	i, known := slices.BinarySearchFunc(
		t.rows,
		s.Node,
		func(r Status, name string) int { return strings.Compare(r.Node, name) },
	)
	switch {
	case !known:
		t.rows = slices.Insert(t.rows, i, s)
	case s.same(t.rows[i]):
		return // what comes is a cause, and that is for the error to tell
	default:
		t.rows[i] = s
	}
	if t.size != nil {
		width, height := t.size()
		if lines := layout(t.columns, t.rows, width); len(lines) < height {
			t.redraw(lines)
			return
		}
	}
	t.line(s)
}

// Tell leaves it to the error.
func (t *Table) Tell(finding.Finding) {}

// Close returns the first error there was in writing.
func (t *Table) Close() error {
	if t.once && len(t.rows) > 0 {
		width := 0
		if t.size != nil {
			width, _ = t.size()
		}
		t.write(strings.Join(layout(t.columns, t.rows, width), "\n") + "\n")
	}
	return t.err
}

// line writes one change below the header.
func (t *Table) line(s Status) {
	if !t.headed {
		t.headed = true
		t.write(row(t.columns, func(c column) string { return c.name }, func(c column) int { return c.usual }) + "\n")
	}
	t.write(row(t.columns, func(c column) string { return c.of(s) }, func(c column) int { return c.usual }) + "\n")
}

// redraw writes all lines over the last ones. Wrapping is off meanwhile, for a terminal that has just become
// narrower: a line that takes two would be missed.
func (t *Table) redraw(lines []string) {
	var b strings.Builder
	b.WriteString("\x1b[?7l")
	if t.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", t.drawn)
	}
	for i, line := range lines {
		if i > 0 {
			line = shade(line)
		}
		b.WriteString(line + "\n")
	}
	b.WriteString("\x1b[?7h")
	t.write(b.String())
	t.drawn = len(lines)
}

func (t *Table) write(text string) {
	if _, err := io.WriteString(t.out, text); err != nil && t.err == nil {
		t.err = fmt.Errorf("show nodes: %w", err)
	}
}
