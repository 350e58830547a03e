package table

import (
	"slices"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"
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

// Each cell starts in the column where its header does, on a terminal of 80 columns, of 200, and on one that is narrower than
// the row; characters that take two places included.
func TestTable_CellsStandBelowTheirHeaders(t *testing.T) {
	header := []string{"NODE", "PROVIDER-ID", "INTERNAL-IP", "NOTE"}
	for _, tc := range []struct {
		name  string
		width int // that the longest row takes at least
		rows  [][]any
	}{
		{"80", 40, [][]any{{"w1", "onprem://b/1", "192.0.2.11", "ok"}, {"a-longer-name", "", "192.0.2.12", "also ok"}}},
		{"200", 150, [][]any{
			{"cp-1.rack7.ber1.example.com", "onprem://default/967eb7bf-4ecd-463d-8be7-0ad36fa32693", "198.19.188.101,fd00:188::101", strings.Repeat("n", 60)},
			{"w1", "", "", ""},
		}},
		{"wide characters", 20, [][]any{{"\u673a\u5668", "onprem://b/1", "192.0.2.11", "\u8bf4\u660e"}, {"w1", "onprem://b/2", "192.0.2.12", "ok"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out strings.Builder
			table := New(&out, header...)
			for _, row := range tc.rows {
				table.Row(row...)
			}
			if err := table.Flush(); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			want := starts(lines[0])
			longest := 0
			for _, line := range lines {
				longest = max(longest, runewidth.StringWidth(line))
				if got := starts(line); !slices.Equal(got, want) {
					t.Errorf("cells start at %v, headers at %v:\n%s", got, want, out.String())
				}
			}
			if longest < tc.width {
				t.Errorf("the longest row takes %d places: no test of %s", longest, tc.name)
			}
		})
	}
}

// starts are the places on the terminal at which the cells of a line start: after two blanks or more.
func starts(line string) []int {
	var list []int
	place, blanks := 0, gap
	for _, r := range line {
		if r == ' ' {
			blanks++
		} else {
			if blanks >= gap {
				list = append(list, place)
			}
			blanks = 0
		}
		place += runewidth.RuneWidth(r)
	}
	return list
}
