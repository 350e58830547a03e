// Package table writes tables for people, in the form of kubectl's.
//
// Start at [New].
//
// Reads: nothing. Writes: to the io.Writer that it is given, once the table is complete.
// Running it twice: the same rows give the same text.
// It will not: let a cell act on the terminal, or end its row. What a Node or a cloud has said may be in it.
package table

import (
	"fmt"
	"io"
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/ccmadm/ccmadm/api/finding"
)

// gap is how many blanks there are between columns.
const gap = 2

// Table collects rows until Flush.
type Table struct {
	out  io.Writer
	rows [][]string // the header first
}

// New returns a table with a header.
func New(out io.Writer, header ...string) *Table { return &Table{out: out, rows: [][]string{header}} }

// Row adds a row. An empty cell is a dash, one with a blank stays blank.
func (t *Table) Row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = OrDash(finding.Clean(fmt.Sprint(c)))
	}
	t.rows = append(t.rows, texts)
}

// Flush writes the table. Each column is as wide as its widest cell takes on a terminal, where some characters take two
// places, and no cell is cut short: half an address is another address.
func (t *Table) Flush() error {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], runewidth.StringWidth(cell))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(row)-1 {
				b.WriteString(cell + "\n")
				break
			}
			b.WriteString(runewidth.FillRight(cell, widths[i]) + strings.Repeat(" ", gap))
		}
	}
	_, err := io.WriteString(t.out, b.String())
	return err
}

// OrDash returns a text, or a dash for one that is empty.
func OrDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// YesNo returns the word for it.
func YesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
