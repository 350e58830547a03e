package routes

import (
	"fmt"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// A kubelet that gives its Node another address each second has the routes reported some times, and then once it is calm for a minute.
// What else changes is reported at once meanwhile.
func TestDamping(t *testing.T) {
	d, now := damping{}, time.Unix(1000, 0)
	calm := v1alpha1.AgentRoute{Destination: "10.244.9.0/24", Node: "calm", Via: "192.0.2.9"}
	flips := func(n int) *reported {
		r := &reported{routes: []v1alpha1.AgentRoute{calm}}
		if n%3 == 0 { // its address is in no network of the machine
			r.problems = []v1alpha1.RouteProblem{{Destination: "10.244.10.0/24", Node: "evil", Reason: Unreachable}}
		} else {
			via := fmt.Sprintf("192.0.2.%d", n%3)
			r.routes = append(r.routes, v1alpha1.AgentRoute{Destination: "10.244.10.0/24", Node: "evil", Via: via})
		}
		return r
	}
	said, reports := reported{}, 0
	look := func(current *reported) {
		if next := d.damp(now, current); !said.equal(*next) {
			said = *next
			reports++
		}
	}
	for n := range 600 {
		look(flips(n))
		now = now.Add(time.Second)
	}
	if reports < 2 || reports > 1+freeChanges {
		t.Errorf("%d reports in ten minutes, want %d at most", reports, 1+freeChanges)
	}
	before := reports
	calm.Via = "192.0.2.8"
	look(flips(600))
	if reports != before+1 || said.routes[0] != calm {
		t.Errorf("the change of another Node is not reported: %v", said.routes)
	}
	for range 2 {
		look(flips(601)) // it stays so
		now = now.Add(calmTime)
	}
	if len(said.routes) != 2 || said.routes[1].Via != "192.0.2.1" || len(said.problems) > 0 {
		t.Errorf("after a calm minute %v and %v are reported, want what there is", said.routes, said.problems)
	}
	for range 2 {
		look(&reported{})
		now = now.Add(calmTime)
	}
	if look(&reported{}); !said.empty() || len(d) > 0 {
		t.Errorf("%v is reported, and %d Nodes are remembered that are gone", said, len(d))
	}
}

// A link that loses its address three times ends with its routes, and they are reported: without them the Node would take no pods.
func TestDamping_Recovers(t *testing.T) {
	d, now := damping{}, time.Unix(1000, 0)
	well := reported{routes: []v1alpha1.AgentRoute{{Destination: "10.244.10.0/24", Node: "w1", Via: "192.0.2.1"}}}
	ill := reported{problems: []v1alpha1.RouteProblem{{Destination: "10.244.10.0/24", Node: "w1", Reason: Unreachable}}}
	reports, said := 0, reported{}
	for n := range 60 {
		current := well
		if n%2 == 1 {
			current = ill
		}
		if next := d.damp(now, &current); !said.equal(*next) {
			said = *next
			reports++
		}
		now = now.Add(time.Second)
		if n >= freeChanges && len(said.problems) > 0 && len(current.problems) == 0 {
			t.Fatalf("after %d changes a problem is reported that is gone", n)
		}
	}
	if reports > freeChanges+2 {
		t.Errorf("%d reports in a minute", reports)
	}
}

// A Node that comes and one that goes are reported at once, in order.
func TestDamping_NodesComeAndGo(t *testing.T) {
	d, now := damping{}, time.Unix(1000, 0)
	for n := range 20 {
		current := &reported{}
		for i := range 20 - n {
			destination, node := fmt.Sprintf("10.244.%d.0/24", i), fmt.Sprintf("w%d", i)
			current.routes = append(current.routes, v1alpha1.AgentRoute{Destination: destination, Node: node, Via: "192.0.2.1"})
		}
		if got := d.damp(now, current); !got.equal(*current) {
			t.Fatalf("%v is reported, want %v", got, current)
		}
		now = now.Add(time.Second)
	}
}
