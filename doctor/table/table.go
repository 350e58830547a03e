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
	"text/tabwriter"

	"github.com/ccmadm/ccmadm/api/finding"
)

// Table collects rows until Flush.
type Table struct{ w *tabwriter.Writer }

// New returns a table with a header.
func New(out io.Writer, header ...string) *Table {
	t := &Table{w: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	fmt.Fprintln(t.w, strings.Join(header, "\t"))
	return t
}

// Row adds a row. An empty cell is a dash, one with a blank stays blank.
func (t *Table) Row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = OrDash(finding.Clean(fmt.Sprint(c)))
	}
	fmt.Fprintln(t.w, strings.Join(texts, "\t"))
}

// Flush writes the table.
func (t *Table) Flush() error { return t.w.Flush() }

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
