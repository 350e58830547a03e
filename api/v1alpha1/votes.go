package v1alpha1

import "iter"

// MaxVotes is how many Nodes have a vote on who owns an address of level L2. Each of them hears all others, and none of the others hear each
// other: with a vote for each of a thousand Nodes, ten million heartbeats a second were sent. Seven lose three at a time
// (docs/adr/0048-seven-votes.md).
const MaxVotes = 7

// Votes are the Nodes that have a vote on who owns an address of level L2, the one first that decides in case of a draw: the newest list of
// most of the reports. Empty: none of them has a list. Names are those that agents have written.
func Votes(agents iter.Seq[*NodeAgent]) []string {
	reports, names := map[string]int{}, map[string][]string{}
	for agent := range agents {
		lists := agent.Status.Voters
		if len(lists) == 0 {
			continue
		}
		newest := lists[len(lists)-1]
		if reports[newest.ID]++; len(newest.Nodes) > 0 {
			names[newest.ID] = newest.Nodes
		}
	}
	most := ""
	for id := range names {
		if most == "" || reports[id] > reports[most] || reports[id] == reports[most] && id < most {
			most = id
		}
	}
	return names[most]
}
