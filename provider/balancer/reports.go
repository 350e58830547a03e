package balancer

import (
	"maps"
	"net/netip"
	"time"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// listeningTime is how long ports stay taken on which an agent has said that something listens, since the last sign of
// its life was seen here: a machine that is off for a night frees none, nor does a manager that begins.
const listeningTime = 12 * time.Hour

// announcement is an address at a level: an agent that announces it at another one does not do what its claim says.
type announcement struct {
	address netip.Addr
	level   v1alpha1.Level
}

// reports are what the agents say.
type reports struct {
	announced map[announcement]bool
	conflicts map[netip.Addr]string
	agents    []*v1alpha1.NodeAgent // that live
	lately    []*v1alpha1.NodeAgent // that have lived within listeningTime
	silent    string
}

// readReports leaves out what agents have said that are silent since, and brings the signs of life up to date.
func readReports(agents []*v1alpha1.NodeAgent, signs objects.Signs, now time.Time) reports {
	r := reports{announced: map[announcement]bool{}, conflicts: map[netip.Addr]string{}}
	there := map[string]bool{}
	for _, agent := range agents {
		there[agent.Name] = true
		signs.Take(now, agent)
		if signs.Within(listeningTime, now, agent.Name) {
			r.lately = append(r.lately, agent)
		}
		if !signs.Live(now, agent.Name) {
			r.silent = agent.Name
			continue
		}
		r.agents = append(r.agents, agent)
		for _, a := range agent.Status.Announcements {
			if address, err := netip.ParseAddr(a.Address); err == nil {
				r.announced[announcement{address, a.Level}] = true
			}
		}
		for _, c := range agent.Status.Conflicts {
			if address, err := netip.ParseAddr(c.Address); err == nil {
				r.conflicts[address] = c.MAC + " answers for it, as interface " + c.Interface + " of Node/" + agent.Name + " hears"
			}
		}
	}
	maps.DeleteFunc(signs, func(name string, _ objects.Sign) bool { return !there[name] })
	return r
}
