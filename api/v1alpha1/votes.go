package v1alpha1

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// MaxVotes is how many Nodes have a vote on who owns an address of level L2. Each of them hears all others, and none of the others hear each
// other: with a vote for each of a thousand Nodes, ten million heartbeats a second were sent. Seven lose three at a time
// (docs/adr/0048-seven-votes.md).
const MaxVotes = 7

// VoterListID digests the names of a list in their order.
func VoterListID(names []string) uint64 {
	sum := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	return binary.BigEndian.Uint64(sum[:])
}

// NewVoterList is the list of these names, in their order.
func NewVoterList(names []string) VoterList {
	return VoterList{ID: fmt.Sprintf("%016x", VoterListID(names)), Nodes: names}
}

// genuine reports whether the names are those of the list's ID, and each is there once.
func (l VoterList) genuine() bool {
	if len(l.Nodes) == 0 || len(l.Nodes) > MaxVoters || NewVoterList(l.Nodes).ID != l.ID {
		return false
	}
	return len(slices.Compact(slices.Sorted(slices.Values(l.Nodes)))) == len(l.Nodes)
}

// ReadVoters reads what agents report, by Node: the names of each list by its ID, and the Nodes that report it. Reports are claims. Names that
// are not those of the ID are no list, and of a report no more than [MaxVoterLists] are read.
func ReadVoters(reports map[string][]VoterList) (names map[string][]string, reporters map[string]map[string]bool) {
	names, reporters = map[string][]string{}, map[string]map[string]bool{}
	for node, lists := range reports {
		for _, l := range lists[:min(len(lists), MaxVoterLists)] {
			if reporters[l.ID] == nil {
				reporters[l.ID] = map[string]bool{}
			}
			reporters[l.ID][node] = true
			if names[l.ID] == nil && l.genuine() {
				names[l.ID] = l.Nodes
			}
		}
	}
	return names, reporters
}

// Votes are the lists of voters that bind agents according to their reports, by Node: as long as there is more than one, an owner of an
// address of level L2 needs a majority of each. A list that one of several Nodes reports alone is left out. Empty: no report has a list.
func Votes(reports map[string][]VoterList) [][]string {
	names, reporters := ReadVoters(reports)
	several := 0
	for _, lists := range reports {
		if len(lists) > 0 {
			several++
		}
	}
	var lists [][]string
	for _, id := range slices.Sorted(maps.Keys(names)) {
		if len(reporters[id]) > 1 || several == 1 {
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
