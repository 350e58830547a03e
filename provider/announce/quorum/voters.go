package quorum

import (
	"slices"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// ListID is a digest of a list of members, of which [IDOf] makes it.
type ListID uint64

// IDOf digests the names in their order.
func IDOf(names []string) ListID { return ListID(v1alpha1.VoterListID(names)) }

// majority of the names, or a half with the first of them.
func majority(names []string, in func(string) bool) bool {
	count := 0
	for _, name := range names {
		if in(name) {
			count++
		}
	}
	return 2*count > len(names) || 2*count == len(names) && len(names) > 0 && in(names[0])
}

// Report is what a NodeAgent says of the lists that bind its agent. The first Nodes of a list write its names, so that not
// every report has all of them. Of too many lists the oldest are left out but one, since the oldest binds longest.
func Report(self string, lists [][]string) []v1alpha1.VoterList {
	if excess := len(lists) - v1alpha1.MaxVoterLists; excess > 0 {
		lists = slices.Delete(slices.Clone(lists), 1, 1+excess)
	}
	var reported []v1alpha1.VoterList
	for _, names := range lists {
		l := v1alpha1.NewVoterList(names)
		at := slices.Index(names, self)
		if at < 0 || at >= v1alpha1.VoterListWriters || len(names) > v1alpha1.MaxVoters {
			l.Nodes = nil
		}
		reported = append(reported, l)
	}
	return reported
}

// Bound are the lists that bind an agent that starts, according to the reports of all, the newest at the end. Whoever
// acts on a list has reported it before. So a list by which an address may be owned is reported by a majority of its
// Nodes. It binds if two agents at least report it, in it or not: one report binds no other agent. What this agent has reported itself
// binds it again, unless so many of the list's Nodes report that they have left it, or are gone, that no majority remains, and there
// are lists of others instead: an agent that comes back after long must not bring back what the others have left.
func Bound(self string, reports map[string][]v1alpha1.VoterList, gone func(name string) bool) [][]string {
	names, reporters := v1alpha1.ReadVoters(reports)
	own := map[string]bool{}
	for _, l := range reports[self] {
		own[l.ID] = true
	}
	var others [][]string
	for id, list := range names {
		reports := func(name string) bool { return reporters[id][name] }
		if !own[id] && majority(list, reports) && len(reporters[id]) > 1 {
			others = append(others, list)
		}
	}
	slices.SortFunc(others, slices.Compare[[]string]) // their order is not known; let it be the same at each start
	bound := others
	for _, l := range reports[self] {
		left := func(name string) bool { return gone(name) || len(reports[name]) > 0 && !reporters[l.ID][name] }
		kept := majority(names[l.ID], func(name string) bool { return !left(name) })
		if names[l.ID] != nil && (kept || len(others) == 0) {
			bound = append(bound, names[l.ID])
		}
	}
	return bound
}
