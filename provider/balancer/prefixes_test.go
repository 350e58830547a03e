package balancer

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
)

// network is a pool with a dynamic prefix, and what the Nodes report.
type network struct {
	*testing.T
	prefixes prefixes
	pool     *v1alpha1.AddressPool
	now      time.Time
	nodes    []*corev1.Node
	agents   []*v1alpha1.NodeAgent
	silent   bool // the agents do not report any more
}

func newNetwork(t *testing.T, nodes int) *network {
	n := &network{T: t, prefixes: prefixes{}, pool: dynamicPool("home", "", "::f000:0-::f000:ff"), now: start}
	for i := range nodes {
		name := metav1.ObjectMeta{Name: fmt.Sprint("n", i)}
		n.nodes = append(n.nodes, &corev1.Node{ObjectMeta: name})
		n.agents = append(n.agents, &v1alpha1.NodeAgent{ObjectMeta: name})
	}
	return n
}

// report is what the Nodes with these numbers say.
func (n *network) report(prefix string, nodes ...int) {
	for _, i := range nodes {
		n.agents[i].Status.Interfaces = []v1alpha1.AgentInterface{{Name: "eth0", Addresses: []string{prefix + "1/64"}}}
	}
}

// pass is one after that time. It writes the status, as [Balancer.count] does.
func (n *network) pass(after time.Duration) {
	n.now = n.now.Add(after)
	live := n.agents
	if n.silent {
		live = nil
	}
	n.prefixes.observe(n.now, []*v1alpha1.AddressPool{n.pool}, allocator.HostsOf(n.nodes, nil), n.agents, live)
	n.prefixes.set(&n.pool.Status, n.pool, n.now)
}

func (n *network) expect(when, prefix, condition string) {
	n.Helper()
	got := ""
	if s := n.pool.Status.DynamicPrefix; s != nil {
		got = s.Prefix
	}
	if got != prefix {
		n.Errorf("%s: the prefix is %q, want %q", when, got, prefix)
	}
	c := meta.FindStatusCondition(n.pool.Status.Conditions, prefixCondition)
	if said := fmt.Sprint(c.Status, " ", c.Message); !strings.Contains(said, condition) {
		n.Errorf("%s: the condition is %q, want %q", when, said, condition)
	}
}

// TestPrefixes: a prefix comes once a majority has reported it for ten seconds without a gap, and goes only for another one.
func TestPrefixes(t *testing.T) {
	n := newNetwork(t, 3)
	n.pass(0)
	n.expect("no report", "", "False no prefix")
	n.report("2001:db8:1::", 0, 1, 2)
	n.pass(time.Second)
	n.expect("reported a moment ago", "", "False more than half of 3 Nodes report 2001:db8:1::/64, for less than 10s")
	if want := n.now.Add(evaluation.PrefixTime); n.prefixes.next(n.now) != want {
		t.Errorf("the next look is at %s, want %s", n.prefixes.next(n.now), want)
	}
	n.pass(evaluation.PrefixTime)
	n.expect("reported for a while", "2001:db8:1::/64", "True more than half of the Nodes report 2001:db8:1::/64")
	since := n.pool.Status.DynamicPrefix.Since

	n.report("2001:db8:2::", 2)
	n.pass(time.Hour)
	n.expect("one of three has another one", "2001:db8:1::/64", "True")
	for range 100 { // flapping
		n.report("2001:db8:2::", 1)
		n.pass(9 * time.Second)
		n.expect("flapping", "2001:db8:1::/64", "2001:db8:2::/64, for less than 10s; 2001:db8:1::/64 stays")
		n.report("2001:db8:1::", 1)
		n.pass(9 * time.Second)
		n.expect("flapping", "2001:db8:1::/64", "True")
	}
	for i := range n.agents {
		n.agents[i].Status.Interfaces = nil
	}
	n.pass(time.Hour)
	n.expect("the line is down", "2001:db8:1::/64", "False no prefix of a global address is reported by more than half of 3 Nodes; 2001:db8:1::/64 stays")
	if n.pool.Status.DynamicPrefix.Since != since || !n.prefixes.next(n.now).IsZero() {
		t.Error("the time of the last change moves, or there is another one to come")
	}
	n.report("2001:db8:2::", 0, 1)
	n.pass(time.Second)
	n.prefixes = prefixes{} // another leader
	n.pass(9 * time.Second)
	n.pass(9 * time.Second)
	n.expect("a leader that begins", "2001:db8:1::/64", "for less than 10s")
	n.pass(time.Second)
	n.expect("two of three have another one", "2001:db8:2::/64", "True")
	if got := n.pool.Status.DynamicPrefix.Since.Time; !got.Equal(n.now) {
		t.Errorf("since %s, want %s", got, n.now)
	}
	n.report("2001:db8:1::", 0, 1, 2)
	n.pass(0)
	n.pass(evaluation.PrefixTime)
	n.expect("it comes back", "2001:db8:1::/64", "True")
}

// TestPrefixes_Starts: what a pool has stays while a manager has seen no report, and without a dynamic prefix nothing is left of it.
func TestPrefixes_Starts(t *testing.T) {
	n := newNetwork(t, 0)
	inPrefix(n.pool, "2001:db8:1::/64")
	for range 3 {
		n.pass(time.Minute)
		n.expect("no report", "2001:db8:1::/64", "False no Node that may announce has an agent; 2001:db8:1::/64 stays")
	}
	n.pool.Spec.DynamicPrefix.Length = 56
	if p := allocator.PrefixOf(n.pool); p.IsValid() {
		t.Errorf("a prefix of another length counts: %s", p)
	}
	n.pool.Spec.DynamicPrefix = nil
	n.pass(time.Minute)
	if s := n.pool.Status; s.DynamicPrefix != nil || len(s.Conditions) > 0 || len(n.prefixes) > 0 {
		t.Errorf("left: %+v, %v", s, n.prefixes)
	}
	data, err := json.Marshal(patchedStatus{&n.pool.Status, nil})
	if err != nil || !strings.Contains(string(data), `"dynamicPrefix":null`) || !strings.Contains(string(data), `"assigned":0`) {
		t.Errorf("the patch is %s, %v", data, err)
	}
}

// TestPrefixes_SecondNetwork: the prefix of another network that the Nodes have all the time replaces none. One of the same interface does.
func TestPrefixes_SecondNetwork(t *testing.T) {
	n := newNetwork(t, 3)
	both := func(eth0, deprecated, eth1 string) {
		for _, agent := range n.agents {
			list := []v1alpha1.AgentInterface{}
			if eth1 != "" {
				list = append(list, v1alpha1.AgentInterface{Name: "eth1", Addresses: []string{eth1 + "1/64"}})
			}
			lan := v1alpha1.AgentInterface{Name: "eth0", Addresses: []string{"fd00::1/64"}}
			if eth0 != "" {
				lan.Addresses = append(lan.Addresses, eth0+"1/64")
			}
			if deprecated != "" {
				old := deprecated + "1/64"
				lan.Addresses, lan.Deprecated = append(lan.Addresses, old), []string{old}
			}
			agent.Status.Interfaces = append(list, lan)
		}
	}
	const first, second, third, management = "2001:db8:1::", "2001:db8:2::", "2001:db8:3::", "2001:db8:ff::"
	expect := func(when, prefix, condition string) {
		n.Helper()
		n.pass(0)
		n.pass(evaluation.PrefixTime)
		n.expect(when, prefix+"/64", condition)
	}
	both(first, "", "")
	expect("one network", first, "True")
	both(first, "", management)
	expect("a second one", first, "False more than half of 3 Nodes report each of [2001:db8:1::/64 2001:db8:ff::/64]: name one interface in spec.interfaces; "+
		"2001:db8:1::/64 stays")
	both("", first, management)
	expect("the line is down", first, "2001:db8:ff::/64 on another interface than 2001:db8:1::/64: name one interface in spec.interfaces; 2001:db8:1::/64 stays")
	for i, left := range []bool{true, false} { // lifetimes end, on one Node after the others
		n.agents[1].Status.Interfaces = n.agents[1].Status.Interfaces[:1]
		n.agents[2].Status.Interfaces = n.agents[2].Status.Interfaces[:1]
		if !left {
			both("", "", management)
		}
		expect(fmt.Sprint("lifetimes end ", i), first, "on another interface than 2001:db8:1::/64")
	}
	for range 2 {
		n.prefixes = prefixes{} // another leader
		expect("another leader", first, "on another interface than 2001:db8:1::/64")
	}
	n.prefixes, n.silent = prefixes{}, true
	expect("another leader, which hears no agent at first", first, "the agents of 0 of 3 Nodes report")
	n.silent = false
	expect("it hears them", first, "on another interface than 2001:db8:1::/64")
	both("", first, management)
	n.prefixes = prefixes{}
	n.pass(0)
	both("", "", management)
	expect("a leader that begins a moment before lifetimes end", first, "on another interface than 2001:db8:1::/64")
	both(first, "", management)
	expect("the line is back", first, "name one interface")
	both(second, first, "")
	expect("renumbered", second, "True")
	n.pool.Spec.Interfaces = []string{"eth0"}
	both(third, second, management)
	expect("renumbered, with an interface", third, "True")
	n.pool.Spec.Interfaces = []string{"eth1"}
	expect("it names the other one", management, "True")
}

// TestPrefixes_OneInterfaceAfterTheOther: two interfaces have the present prefix, and both get the next one, some seconds apart. It is not
// that of another network, also for a manager that begins in between.
func TestPrefixes_OneInterfaceAfterTheOther(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart: ", restart), func(t *testing.T) {
			n := newNetwork(t, 1)
			n.pool.Spec.DynamicPrefix.Length = 56
			have := func(one, other string) {
				n.agents[0].Status.Interfaces = []v1alpha1.AgentInterface{
					{Name: "eth0.1", Addresses: []string{one + "1::1/64"}}, {Name: "eth0.2", Addresses: []string{other + "2::1/64"}},
				}
			}
			const first, second = "2001:db8:1:", "2001:db8:2:"
			have(first, first)
			n.pass(0)
			n.pass(evaluation.PrefixTime)
			n.expect("both have it", first+":/56", "True")
			have(second, first)
			n.pass(time.Second)
			n.expect("one has the next one", first+":/56", "False more than half of 1 Nodes report each of")
			if restart {
				n.prefixes = prefixes{}
			}
			n.pass(3 * time.Second)
			have(second, second)
			n.pass(time.Second)
			n.expect("both have the next one", first+":/56", "False more than half of 1 Nodes report 2001:db8:2::/56, for less than 10s")
			n.pass(evaluation.PrefixTime)
			n.expect("they have had it for a while", second+":/56", "True")
		})
	}
}

// TestPrefixes_PowerCut: what comes first after a start follows, where no other network was there before.
func TestPrefixes_PowerCut(t *testing.T) {
	n := newNetwork(t, 1)
	n.report("2001:db8:1::", 0)
	n.pass(0)
	n.pass(evaluation.PrefixTime)
	n.prefixes, n.agents[0].Status.Interfaces = prefixes{}, nil
	n.pass(time.Hour)
	n.expect("it starts", "2001:db8:1::/64", "False no prefix")
	n.prefixes = prefixes{}
	n.report("2001:db8:2::", 0)
	n.pass(0)
	n.pass(evaluation.PrefixTime)
	n.expect("it has another one", "2001:db8:2::/64", "True")
}
