package nodes

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
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
	// footer is the line below the rows on a terminal; told is how much time was left when it was last told elsewhere.
	footer string
	told   time.Duration
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
		if lines := layout(t.columns, t.rows, width); len(lines)+1 < height { // there may be a footer
			t.redraw(lines)
			return
		}
		t.drawn, t.footer = 0, "" // what is drawn leaves the screen, and stays as it is
	}
	t.line(s)
}

// tellLeft is how often a wait is told where nothing is redrawn.
const tellLeft = 30 * time.Second

// Left tells how much time a wait has left: on a terminal below the rows, elsewhere in a line from time to time.
func (t *Table) Left(left time.Duration) {
	text := fmt.Sprintf("waiting, %s left", left.Round(time.Second))
	switch {
	case t.drawn > 0:
		t.footer = text
		width, _ := t.size()
		t.redraw(layout(t.columns, t.rows, width))
	case t.told == 0:
		t.told = left
	case t.told-left >= tellLeft:
		t.told = left
		t.write(text + "\n")
	}
}

// Tell leaves it to the error.
func (t *Table) Tell(finding.Finding) {}

// Close returns the first error there was in writing.
func (t *Table) Close() error {
	if t.footer != "" {
		t.footer = ""
		width, _ := t.size()
		t.redraw(layout(t.columns, t.rows, width))
	}
	if t.once && len(t.rows) > 0 {
		width := 0
		if t.size != nil {
			width, _ = t.size()
		}
		t.write(strings.Join(layout(t.columns, t.rows, width), "\n") + "\n")
	}
	return t.err
}

// line writes one change below the header. A cell that is wider than its column makes the column wider, below a header of its
// own: cells stand below their headers.
func (t *Table) line(s Status) {
	header := !t.headed
	for i := range t.columns[:len(t.columns)-1] { // nothing stands after the last one
		c := &t.columns[i]
		if width := runewidth.StringWidth(c.of(s)); width > c.usual {
			c.usual, header = width, true
		}
	}
	usual := func(c column) int { return c.usual }
	if header {
		t.headed = true
		t.write(row(t.columns, func(c column) string { return c.name }, usual) + "\n")
	}
	t.write(row(t.columns, func(c column) string { return c.of(s) }, usual) + "\n")
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
	t.drawn = len(lines)
	if t.footer != "" {
		b.WriteString(t.footer + "\n")
		t.drawn++
	}
	b.WriteString("\x1b[?7h")
	t.write(b.String())
}

func (t *Table) write(text string) {
	if _, err := io.WriteString(t.out, text); err != nil && t.err == nil {
		t.err = fmt.Errorf("show nodes: %w", err)
	}
}
