package nodes

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/fatih/color"
	"github.com/mattn/go-runewidth"
)

// column is one of a table. None is ever cut short: half an address is another address.
type column struct {
	name string
	of   func(Status) string
	// drop is its place among those that are left out where the terminal is too narrow; 0 is never.
	drop int
	// usual is its width where rows are written before all are known.
	usual int
}

func columns(wide bool) []column {
	none := func(text string) string { return cmp.Or(text, "-") }
	list := []column{
		{"NODE", func(s Status) string { return s.Node }, 0, 24},
		{"STATE", func(s Status) string { return s.State.String() }, 0, len("Initialized")},
		{"PROVIDER-ID", func(s Status) string { return none(s.ProviderID) }, 1, 40},
		{"INTERNAL-IP", func(s Status) string { return none(strings.Join(s.InternalIPs, ",")) }, 4, 15},
	}
	if wide {
		list = append(list,
			column{"ZONE", func(s Status) string { return none(s.Zone) }, 3, 15},
			column{"VERSION", func(s Status) string { return none(s.Version) }, 2, 10})
	}
	return list
}

const gap = 2

// layout returns a header and a line or more for each row, none wider than width; 0 is without limit. Columns that do
// not fit are left out; where node and state do not, the state has a line of its own.
func layout(cols []column, rows []Status, width int) []string {
	cols = slices.Clone(cols)
	for width > 0 && total(cols, rows) > width {
		first := -1
		for i, c := range cols {
			if c.drop > 0 && (first < 0 || c.drop < cols[first].drop) {
				first = i
			}
		}
		if first < 0 {
			return stacked(cols, rows, width)
		}
		cols = slices.Delete(cols, first, first+1)
	}
	widthOf := func(c column) int { return natural(c, rows) }
	lines := []string{row(cols, func(c column) string { return c.name }, widthOf)}
	for _, s := range rows {
		lines = append(lines, row(cols, func(c column) string { return c.of(s) }, widthOf))
	}
	return lines
}

func row(cols []column, text func(column) string, widthOf func(column) int) string {
	var b strings.Builder
	for i, c := range cols {
		if i == len(cols)-1 {
			b.WriteString(text(c))
			break
		}
		b.WriteString(runewidth.FillRight(text(c), widthOf(c)) + strings.Repeat(" ", gap))
	}
	return b.String()
}

// natural is the width of a column that has all rows.
func natural(c column, rows []Status) int {
	width := len(c.name)
	if c.name == "STATE" {
		width = c.usual // the table does not jump while states change
	}
	for _, s := range rows {
		width = max(width, runewidth.StringWidth(c.of(s)))
	}
	return width
}

func total(cols []column, rows []Status) int {
	sum := (len(cols) - 1) * gap
	for _, c := range cols {
		sum += natural(c, rows)
	}
	return sum
}

// stacked has each cell on lines of its own, wrapped at the width.
func stacked(cols []column, rows []Status, width int) []string {
	var lines []string
	cell := func(indent, text string) {
		for text != "" {
			head := runewidth.Truncate(text, max(1, width-len(indent)), "")
			if head == "" {
				head = text // narrower than one character
			}
			lines, text = append(lines, indent+head), text[len(head):]
		}
	}
	cell("", "NODE, STATE")
	for _, s := range rows {
		for i, c := range cols {
			cell(strings.Repeat(" ", min(i, 1)*gap), c.of(s))
		}
	}
	return lines
}

// stateWord finds a state in a line; the names of nodes have no capitals.
var stateWord = regexp.MustCompile(
	`(^|  )(Absent|Registered|Tainted|Claimed|Resolved|Initialized|Addressed|Ready)( *$|  )`,
)

// shade colours the state.
func shade(line string) string {
	return stateWord.ReplaceAllStringFunc(line, func(match string) string {
		word := strings.TrimSpace(match)
		s, err := ParseState(word)
		if err != nil {
			return match
		}
		return strings.Replace(match, word, colorOf(s).Sprint(word), 1)
	})
}

func colorOf(s State) *color.Color {
	switch {
	case s >= Addressed:
		return color.New(color.FgGreen)
	case s <= Registered:
		return color.New(color.FgRed)
	default:
		return color.New(color.FgYellow)
	}
}
