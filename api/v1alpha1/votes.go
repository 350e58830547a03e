package v1alpha1

import (
	"iter"
	"maps"
	"slices"
)

// MaxVotes is how many Nodes have a vote on who owns an address of level L2. Each of them hears all others, and none of the others hear each
// other: with a vote for each of a thousand Nodes, ten million heartbeats a second were sent. Seven lose three at a time
// (docs/adr/0048-seven-votes.md).
const MaxVotes = 7

// Votes are the lists of voters that bind agents according to the reports, each with its Nodes in order: as long as there is more than one, an
// owner of an address of level L2 needs a majority of each. Names are those that agents have written; a list that one of several
// agents reports alone is left out. Empty: no report has a list.
func Votes(agents iter.Seq[*NodeAgent]) [][]string {
	reports, names, reporters := map[string]int{}, map[string][]string{}, 0
	for agent := range agents {
		if len(agent.Status.Voters) > 0 {
			reporters++
		}
		for _, list := range agent.Status.Voters {
			if reports[list.ID]++; len(list.Nodes) > 0 {
				names[list.ID] = list.Nodes
			}
		}
	}
	var lists [][]string
	for _, id := range slices.Sorted(maps.Keys(names)) {
		if reports[id] > 1 || reporters == 1 {
			lists = append(lists, names[id])
		}
	}
	return lists
}

// MissingVotes are the Nodes of one list that are among others, and how many the list has: that list of which most are missing.
func MissingVotes(lists [][]string, others []string) (missing []string, of int) {
	for _, list := range lists {
		absent := slices.DeleteFunc(slices.Clone(list), func(name string) bool { return !slices.Contains(others, name) })
		if of == 0 || len(absent)*of > len(missing)*len(list) {
			missing, of = absent, len(list)
		}
	}
	return missing, of
}
