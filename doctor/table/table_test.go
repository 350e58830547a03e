package table

import (
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	var out strings.Builder
	table := New(&out, "NODE", "READY", "ROUTES", "NOTE")
	table.Row("w1", YesNo(true), 12, "")
	table.Row("a-long-name", YesNo(false), 0, "two\nlines\tand \x1b[31mred\x1b[0m")
	table.Row("  rule", " ", "", "met")
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	const want = `NODE         READY  ROUTES  NOTE
w1           yes    12      -
a-long-name  no     0       two lines and red
  rule              -       met
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
