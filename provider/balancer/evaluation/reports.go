package evaluation

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// listeningTime is how long ports stay taken on which an agent has said that something listens, since its last report was
// seen here: a machine that is off for a night frees none, nor does a manager that begins.
const listeningTime = 12 * time.Hour

// Reports are what the agents say, by address.
type Reports struct {
	Announced map[netip.Addr]bool
	conflicts map[netip.Addr]string
	hooks     map[netip.Addr]string // why the hook of an address fails, on the Node that announces it
	Agents    []*v1alpha1.NodeAgent // that live
	Lately    []*v1alpha1.NodeAgent // that have lived within listeningTime
	silent    []string              // Nodes of all others
}

// ReadReports leaves out what agents have said that do not report since, and notes when each has reported. Where one agent
// announces an address and another one reports that a stranger answers for it, that of the Node with the lower rank is trusted:
// else one agent could have an address published that is a stranger's. Leases are signs of life beside the reports.
func ReadReports(agents []*v1alpha1.NodeAgent, leases []*v1alpha1.NodeAgentLease, alive objects.Liveness, now time.Time, rank map[string]int) Reports {
	r := Reports{Announced: map[netip.Addr]bool{}, conflicts: map[netip.Addr]string{}, hooks: map[netip.Addr]string{}}
	alive.ObserveAll(now, agents, leases)
	there := map[string]bool{}
	for _, agent := range agents {
		there[agent.Name] = true
		if alive.Within(listeningTime, now, agent.Name) {
			r.Lately = append(r.Lately, agent)
		}
		if alive.Live(now, agent.Name) {
			r.Agents = append(r.Agents, agent)
		} else {
			r.silent = append(r.silent, agent.Name)
		}
	}
	r.readAddresses(rank)
	maps.DeleteFunc(alive, func(name string, _ objects.LastReport) bool { return !there[name] })
	slices.Sort(r.silent)
	return r
}

// readAddresses fills in what the agents that live say of addresses. With BGP each of them announces each address: Nodes times Services.
func (r *Reports) readAddresses(rank map[string]int) {
	announcer, warner := map[netip.Addr]int{}, map[netip.Addr]int{} // the lowest rank of those who do
	lowest := func(of map[netip.Addr]int, address netip.Addr, name string) bool {
		own, known := rank[name]
		if !known {
			own = len(rank)
		}
		if before, has := of[address]; has && before <= own {
			return false
		}
		of[address] = own
		return true
	}
	for _, agent := range r.Agents {
		for _, c := range agent.Status.Conflicts {
			if address, err := netip.ParseAddr(c.Address); err == nil && lowest(warner, address, agent.Name) {
				r.conflicts[address] = c.MAC + " answers for it, as interface " + c.Interface + " of Node/" + agent.Name + " hears"
			}
		}
	}
	read := map[string]bool{}
	for _, agent := range r.Agents {
		for _, a := range agent.Status.Announcements {
			if len(warner) == 0 && read[a.Address] && a.Hook == "" {
				continue
			}
			address, err := netip.ParseAddr(a.Address)
			if err != nil {
				continue
			}
			read[a.Address], r.Announced[address] = true, true
			lowest(announcer, address, agent.Name) // whom a warning counts against
			if a.Hook != "" {
				r.hooks[address] = "on Node/" + agent.Name + " " + finding.Clean(a.Hook)
			}
		}
	}
	maps.DeleteFunc(r.Announced, func(address netip.Addr, _ bool) bool {
		warned, is := warner[address]
		return is && warned < announcer[address]
	})
}

// muted names the agents that do not report, and says how many there are; at an elected level those with a vote, if there are any. Most says
// that half of them or more do not report.
func (r *Reports) muted(level v1alpha1.Level) (text string, most bool) {
	what, names, all := "node agents", r.silent, len(r.silent)+len(r.Agents)
	if missing, of := v1alpha1.MissingVotes(r.votes(), r.silent); level.Elected() && of > 0 {
		if len(missing) == 0 {
			return fmt.Sprintf("%d of %d node agents do not report, none of them has a vote", len(r.silent), all), false
		}
		slices.Sort(missing)
		what, names, all = "voters", missing, of
	}
	named := names[:min(len(names), allocator.NamedErrors)]
	text = fmt.Sprintf("%d of %d %s do not report: %s", len(names), all, what, strings.Join(named, ", "))
	if len(named) < len(names) {
		text += ", ..."
	}
	return text, 2*len(names) >= all
}

// votes are the lists of Nodes with a vote. Where there are few agents each has one.
func (r *Reports) votes() [][]string {
	voters, reports := slices.Clone(r.silent), map[string][]v1alpha1.VoterList{}
	for _, agent := range r.Agents {
		voters = append(voters, agent.Name)
		reports[agent.Name] = agent.Status.Voters
	}
	if len(voters) > v1alpha1.MaxVotes {
		return v1alpha1.Votes(reports)
	}
	return [][]string{voters}
}

// Silent is how many agents do not report.
func (r *Reports) Silent() int { return len(r.silent) }

// Contested is how many addresses of an elected level have two owners: two agents that announce them, or a machine without an
// agent that answers for them.
func (r *Reports) Contested() int {
	owners := map[netip.Addr]int{}
	for address := range r.conflicts {
		owners[address] = 2
	}
	for _, agent := range r.Agents {
		for _, a := range agent.Status.Announcements {
			if !a.Level.Elected() { // each Node announces each address: reading them all would cost Services times Nodes
				continue
			}
			if address, err := netip.ParseAddr(a.Address); err == nil {
				owners[address]++
			}
		}
	}
	n := 0
	for _, of := range owners {
		if of > 1 {
			n++
		}
	}
	return n
}
