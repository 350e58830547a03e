package quorum

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// listsOf are lists with one letter for a Node, as an agent reports them.
func listsOf(self string, lists ...string) []v1alpha1.VoterList {
	var names [][]string
	for _, list := range lists {
		names = append(names, strings.Split(list, ""))
	}
	return Report(self, names)
}

// What binds an agent that starts, by what it has reported itself and by what others have.
func TestBinding(t *testing.T) {
	for _, tt := range []struct {
		name    string
		reports string // AGENT:LIST,LIST of each
		want    string
		gone    string
	}{
		{"nobody reports anything", "", "", ""},
		{"an agent of an earlier release reports nothing", "a: b:", "", ""},
		{"its own", "s:abs,as", "abs as", ""},
		{"that of two others, in which it is not", "a:ab b:ab", "ab", ""},
		{"a majority of three reports it", "a:abc b:abc c:bc", "abc", ""},
		{"no majority of three reports it", "a:abc b:bc c:bc", "bc", ""},
		{"half of four with the first", "a:abcd b:abcd c:cd d:cd", "abcd cd", ""},
		{"half of four without the first", "c:abcd d:abcd a:ab b:ab", "ab", ""},
		{"one report binds no other agent", "a:a b:b", "", ""},
		{"nor do reports of those that are not in the list", "a:xy b:xy x:xy", "", ""},
		{"its own, which the others have left", "s:abs a:ab b:ab", "ab", ""},
		{"its own, which one has left", "s:abs a:ab b:abs", "abs", ""},
		{"its own, which the only other one has left: there is nothing instead", "s:as a:a", "as", ""},
		{"its own, and the others are of an earlier release", "s:abs a: b:", "abs", ""},
		{"its own, of which two Nodes are gone and one has left it", "s:absxy a:as b:absxy", "absxy", "xy"},
		{"its own, of which most Nodes are gone or have left it", "s:absxy a:ab b:ab", "ab", "xy"},
		{"its own, of which most Nodes are gone, and there is nothing instead", "s:asxyz", "asxyz", "xyz"},
		{"others' before its own", "s:as a:ab,as b:ab", "ab as", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reports := map[string][]v1alpha1.VoterList{}
			for text := range strings.FieldsSeq(tt.reports) {
				agent, lists, _ := strings.Cut(text, ":")
				if reports[agent] = nil; lists != "" {
					reports[agent] = listsOf(agent, strings.Split(lists, ",")...)
				}
			}
			if tt.name == "nor do reports of those that are not in the list" {
				reports["a"], reports["b"] = reports["x"], reports["x"]
				delete(reports, "x")
			}
			var got []string
			for _, names := range Bound("s", reports, func(name string) bool { return strings.Contains(tt.gone, name) }) {
				got = append(got, strings.Join(names, ""))
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Reports are claims: names that are not those of the ID, or are there more than once, are no list; a report has limits.
func TestBinding_Hostile(t *testing.T) {
	twice := strings.Split("aab", "")
	long := make([]string, v1alpha1.MaxVoters+1)
	many := make([]v1alpha1.VoterList, 3*v1alpha1.MaxVoterLists)
	for i := range long {
		long[i] = fmt.Sprint(i)
	}
	for i := range many {
		many[i] = v1alpha1.VoterList{ID: fmt.Sprint(i)}
	}
	last := listsOf("a", "ab")[0]
	for name, lists := range map[string][]v1alpha1.VoterList{
		"other names":   {{ID: last.ID, Nodes: []string{"a", "b", "c"}}},
		"no names":      {{ID: last.ID}},
		"no ID":         {{Nodes: []string{"a", "b"}}},
		"a name twice":  {v1alpha1.NewVoterList(twice)},
		"a long list":   {v1alpha1.NewVoterList(long)},
		"too many":      append(slices.Clone(many), last),
		"not even one":  {},
		"an empty list": {{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Bound("s", map[string][]v1alpha1.VoterList{"a": lists, "b": lists}, func(string) bool { return false }); len(got) > 0 {
				t.Errorf("got %v", got)
			}
		})
	}
}

// A report stays within its limits, with the oldest list and the newest; names are written by the first Nodes of a list.
func TestReport_Voters(t *testing.T) {
	var lists [][]string
	for i := range 3 * v1alpha1.MaxVoterLists {
		lists = append(lists, []string{"a", fmt.Sprint(i)})
	}
	got := Report("a", lists)
	if len(got) != v1alpha1.MaxVoterLists || got[0].Nodes[1] != "0" || got[len(got)-1].Nodes[1] != "95" || got[1].Nodes[1] != "65" {
		t.Errorf("got %d lists: %v", len(got), got)
	}
	nodes := strings.Split("abcdefghijkl", "")
	writers := 0
	for _, node := range append(slices.Clone(nodes), "z") {
		l := Report(node, [][]string{nodes})
		if l[0].ID != v1alpha1.NewVoterList(nodes).ID {
			t.Errorf("%s reports %v", node, l)
		}
		if len(l[0].Nodes) > 0 {
			writers++
		}
	}
	if writers != v1alpha1.VoterListWriters {
		t.Errorf("%d write the names", writers)
	}
	if got := Report("0", [][]string{make([]string, v1alpha1.MaxVoters+1)}); got[0].Nodes != nil {
		t.Error("a list that is too long for a report is in one")
	}
}
