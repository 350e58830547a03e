package evaluation

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// TestVoteOnPrefix: what more than half of the Nodes report counts, and no voice counts twice.
func TestVoteOnPrefix(t *testing.T) {
	const before, after = "2001:db8:1::/64", "2001:db8:2::/64"
	eth0 := func(addresses ...string) []v1alpha1.AgentInterface {
		return []v1alpha1.AgentInterface{{Name: "eth0", Addresses: addresses}}
	}
	deprecated := func(old, now string) []v1alpha1.AgentInterface {
		return []v1alpha1.AgentInterface{{Name: "eth0", Addresses: []string{old, now}, Deprecated: []string{old}}}
	}
	eth1 := func(address string) v1alpha1.AgentInterface {
		return v1alpha1.AgentInterface{Name: "eth1", Addresses: []string{address}}
	}
	eth0and1 := func(zero, one string) []v1alpha1.AgentInterface { return append(eth0(zero), eth1(one)) }
	for _, tt := range []struct {
		name    string
		reports [][]v1alpha1.AgentInterface // nil: the agent does not report
		change  func(*v1alpha1.AddressPool, []*corev1.Node)
		want    string // the majority, and what replaces before
		why     string
	}{
		{
			"all have another one",
			[][]v1alpha1.AgentInterface{eth0("2001:db8:2::1/64"), eth0("2001:db8:2::2/64"), eth0("2001:db8:2::3/64")},
			nil,
			"[2001:db8:2::/64] 2001:db8:2::/64", "report 2001:db8:2::/64, for less than 10s",
		},
		{
			"a Node that is alone", [][]v1alpha1.AgentInterface{eth0("2001:db8:2::1/128")}, nil, "[2001:db8:2::/64] 2001:db8:2::/64", "for less than",
		},
		{
			"one of three lies",
			[][]v1alpha1.AgentInterface{eth0("2001:db8:1::1/64"), eth0("2001:db8:1::2/64"), eth0("2001:db8:2::3/64")},
			nil,
			"[2001:db8:1::/64] invalid Prefix", "",
		},
		{
			"one says it a hundred times",
			[][]v1alpha1.AgentInterface{eth0("2001:db8:1::1/64"), eth0("2001:db8:3::1/64"), many("2001:db8:2::")},
			nil,
			"[] invalid Prefix", "no prefix of a global address is reported by more than half of 3",
		},
		{
			"half is no majority", [][]v1alpha1.AgentInterface{eth0("2001:db8:1::1/64"), eth0("2001:db8:2::2/64")}, nil, "[] invalid Prefix", "more than half of 2",
		},
		{
			"one reports, and the others do not",
			[][]v1alpha1.AgentInterface{eth0("2001:db8:2::1/64"), nil, nil},
			nil,
			"[] invalid Prefix", "the agents of 1 of 3 Nodes report, and more than half have to",
		},
		{
			"the former one is deprecated", [][]v1alpha1.AgentInterface{
				deprecated("2001:db8:1::1/64", "2001:db8:2::1/64"), deprecated("2001:db8:1::2/64", "2001:db8:2::2/64"),
			}, nil, "[2001:db8:2::/64] 2001:db8:2::/64", "for less than",
		},
		{
			"agents of an earlier release have both", [][]v1alpha1.AgentInterface{
				eth0("2001:db8:1::1/64", "2001:db8:2::1/64"), eth0("2001:db8:1::2/64", "2001:db8:2::2/64"),
			}, nil, "[2001:db8:1::/64 2001:db8:2::/64] invalid Prefix", "",
		},
		{
			"a second network", [][]v1alpha1.AgentInterface{
				eth0and1("2001:db8:1::1/64", "2001:db8:3::1/64"), eth0and1("2001:db8:1::2/64", "2001:db8:3::2/64"),
			}, nil, "[2001:db8:1::/64 2001:db8:3::/64] invalid Prefix", "each of [2001:db8:1::/64 2001:db8:3::/64]: name one interface in spec.interfaces",
		},
		{
			"a second network, and the former one is deprecated", [][]v1alpha1.AgentInterface{
				append(deprecated("2001:db8:1::1/64", "fd00::1/64"), eth1("2001:db8:3::1/64")),
				append(deprecated("2001:db8:1::2/64", "fd00::2/64"), eth1("2001:db8:3::2/64")),
				{eth1("2001:db8:3::3/64")}, // its lifetime is over there
			}, nil, "[2001:db8:3::/64] invalid Prefix", "on another interface than 2001:db8:1::/64: name one interface in spec.interfaces",
		},
		{
			"one of three says that it is another network", [][]v1alpha1.AgentInterface{
				deprecated("2001:db8:1::1/64", "2001:db8:2::1/64"), eth0("2001:db8:2::2/64"), eth0and1("2001:db8:1::3/64", "2001:db8:2::3/64"),
			}, nil, "[2001:db8:2::/64] 2001:db8:2::/64", "for less than",
		},
		{
			"a second network, and the pool names one interface", [][]v1alpha1.AgentInterface{
				eth0and1("2001:db8:1::1/64", "2001:db8:3::1/64"),
			}, func(p *v1alpha1.AddressPool, _ []*corev1.Node) { p.Spec.Interfaces = []string{"eth1"} }, "[2001:db8:3::/64] 2001:db8:3::/64", "for less than",
		},
		{
			"two new ones",
			[][]v1alpha1.AgentInterface{eth0("2001:db8:3::1/64", "2001:db8:2::1/64")},
			nil,
			"[2001:db8:2::/64 2001:db8:3::/64] invalid Prefix", "on one interface: deprecate all but one on the router",
		},
		{
			"local, unique local and IPv4 addresses", [][]v1alpha1.AgentInterface{
				eth0("fe80::1/64", "fd00::1/64", "192.0.2.1/24", "::ffff:192.0.2.1/112", "no address"),
			}, nil, "[] invalid Prefix", "no prefix of a global address",
		},
		{
			"another interface", [][]v1alpha1.AgentInterface{{
				{Name: "eth0", Addresses: []string{"2001:db8:2::1/64"}}, {Name: "eth1", Addresses: []string{"2001:db8:3::1/64"}},
			}}, func(p *v1alpha1.AddressPool, _ []*corev1.Node) { p.Spec.Interfaces = []string{"eth1"} }, "[2001:db8:3::/64] 2001:db8:3::/64", "for less than",
		},
		{
			"an address of its pods", [][]v1alpha1.AgentInterface{eth0("2001:db8:2::1/64")}, func(_ *v1alpha1.AddressPool, nodes []*corev1.Node) {
				nodes[0].Spec.PodCIDRs = []string{"2001:db8:2::/80"}
			}, "[] invalid Prefix", "no prefix of a global address",
		},
		{
			"the pool selects Nodes",
			[][]v1alpha1.AgentInterface{eth0("2001:db8:1::1/64"), eth0("2001:db8:1::2/64"), eth0("2001:db8:2::3/64")},
			func(p *v1alpha1.AddressPool, nodes []*corev1.Node) {
				p.Spec.Nodes = &metav1.LabelSelector{MatchLabels: map[string]string{"site": "home"}}
				nodes[2].Labels["site"] = "home"
			}, "[2001:db8:2::/64] 2001:db8:2::/64", "for less than",
		},
		{
			"a Node that does not announce has no voice",
			[][]v1alpha1.AgentInterface{eth0("2001:db8:2::1/64"), eth0("2001:db8:1::2/64")},
			func(_ *v1alpha1.AddressPool, nodes []*corev1.Node) { nodes[1].Labels[v1alpha1.ExcludeLabel] = "" },
			"[2001:db8:2::/64] 2001:db8:2::/64", "for less than",
		},
		{
			"unless no other announces",
			[][]v1alpha1.AgentInterface{eth0("2001:db8:2::1/64"), eth0("2001:db8:2::2/64")},
			func(_ *v1alpha1.AddressPool, nodes []*corev1.Node) {
				nodes[0].Labels[v1alpha1.ExcludeLabel], nodes[1].Labels[v1alpha1.ExcludeLabel] = "", ""
			}, "[2001:db8:2::/64] 2001:db8:2::/64", "for less than",
		},
		{
			"or the label is to be honoured",
			[][]v1alpha1.AgentInterface{eth0("2001:db8:2::1/64")},
			func(p *v1alpha1.AddressPool, nodes []*corev1.Node) {
				p.Spec.ExcludeLabel, nodes[0].Labels[v1alpha1.ExcludeLabel] = v1alpha1.ExcludeHonour, ""
			}, "[] invalid Prefix", "no Node that may announce has an agent",
		},
		{
			"a Node that leaves keeps its voice",
			[][]v1alpha1.AgentInterface{eth0("2001:db8:1::1/64"), eth0("2001:db8:2::2/64")},
			func(_ *v1alpha1.AddressPool, nodes []*corev1.Node) { nodes[0].Labels[v1alpha1.DrainLabel] = "true" }, "[] invalid Prefix", "more than half of 2",
		},
		{"no Node", nil, nil, "[] invalid Prefix", "no Node that may announce has an agent"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := voteOf(tt.reports, before, tt.change)
			if got := fmt.Sprint(v.Majority, " ", v.Instead(netip.MustParsePrefix(before))); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if got := v.Disagreement(netip.MustParsePrefix(before)); !strings.Contains(got, tt.why) || (got == "") != (tt.why == "") {
				t.Errorf("it says %q, want %q", got, tt.why)
			}
			if v.Instead(netip.MustParsePrefix(after)) == netip.MustParsePrefix(after) {
				t.Error("a prefix is replaced by itself")
			}
		})
	}
}

// voteOf is the vote of a Node for each report; nil: its agent does not report. Beside them are a Node without an agent, and the agent of a
// Node that is gone.
func voteOf(reports [][]v1alpha1.AgentInterface, before string, change func(*v1alpha1.AddressPool, []*corev1.Node)) PrefixVote {
	pool := &v1alpha1.AddressPool{Spec: v1alpha1.AddressPoolSpec{DynamicPrefix: &v1alpha1.PoolDynamicPrefix{Length: 64}}}
	pool.Status.DynamicPrefix = &v1alpha1.PoolPrefix{Prefix: before}
	var nodes []*corev1.Node
	var reported, live []*v1alpha1.NodeAgent
	for i, interfaces := range reports {
		name := fmt.Sprint("n", i)
		nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}})
		agent := &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.NodeAgentStatus{Interfaces: interfaces}}
		if reported = append(reported, agent); interfaces != nil {
			live = append(live, agent)
		}
	}
	nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "without an agent"}})
	live = append(live, &v1alpha1.NodeAgent{ // of a Node that is gone
		ObjectMeta: metav1.ObjectMeta{Name: "gone"}, Status: v1alpha1.NodeAgentStatus{Interfaces: []v1alpha1.AgentInterface{{Name: "eth0", Addresses: []string{"2001:db8:9::1/64"}}}},
	})
	if change != nil {
		change(pool, nodes)
	}
	return VoteOnPrefix(pool, allocator.HostsOf(nodes, nil), reported, live)
}

// Which remedy helps depends on whether more than half of the Nodes that report two prefixes have them on one interface.
func TestVoteOnPrefix_TwoOnOneInterface(t *testing.T) {
	eth0 := func(addresses ...string) v1alpha1.AgentInterface {
		return v1alpha1.AgentInterface{Name: "eth0", Addresses: addresses}
	}
	eth1 := v1alpha1.AgentInterface{Name: "eth1", Addresses: []string{"2001:db8:2::1/64"}}
	const one, several = "on one interface: deprecate all but one on the router", "name one interface in spec.interfaces"
	for _, tt := range []struct {
		name       string
		reports    [][]v1alpha1.AgentInterface
		interfaces []string
		want       string
	}{
		{
			"on the interface that the pool names", [][]v1alpha1.AgentInterface{
				{eth0("2001:db8:3::1/64"), eth1}, {eth0("2001:db8:3::2/64", "2001:db8:2::2/64")}, {eth0("2001:db8:2::3/64")},
			}, []string{"eth0"}, one,
		},
		{"on two interfaces that the pool names", [][]v1alpha1.AgentInterface{{eth0("2001:db8:3::1/64"), eth1}}, []string{"eth0", "eth1"}, several},
		{
			"a Node that is alone says that they are on one interface", [][]v1alpha1.AgentInterface{
				{eth0("2001:db8:3::1/64", "2001:db8:2::1/64")}, {eth0("2001:db8:3::2/64"), eth1}, {eth0("2001:db8:3::3/64"), eth1},
			}, nil, several,
		},
		{
			"each Node has one of its own beside one of them", [][]v1alpha1.AgentInterface{
				{eth0("2001:db8:3::1/64", "2001:db8:11::1/64"), eth1}, {eth0("2001:db8:3::2/64", "2001:db8:12::1/64"), eth1},
			}, nil, several,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const before = "2001:db8:1::/64"
			v := voteOf(tt.reports, before, func(p *v1alpha1.AddressPool, _ []*corev1.Node) { p.Spec.Interfaces = tt.interfaces })
			if got := fmt.Sprint(v.Majority, " ", v.Instead(netip.MustParsePrefix(before))); got != "[2001:db8:2::/64 2001:db8:3::/64] invalid Prefix" {
				t.Errorf("got %s", got)
			}
			if got := v.Disagreement(netip.MustParsePrefix(before)); !strings.Contains(got, tt.want) {
				t.Errorf("it says %q, want %q", got, tt.want)
			}
		})
	}
}

// many are a hundred addresses of one interface.
func many(prefix string) []v1alpha1.AgentInterface {
	i := v1alpha1.AgentInterface{Name: "eth0"}
	for n := range 100 {
		i.Addresses = append(i.Addresses, fmt.Sprintf("%s%x/64", prefix, n+1))
	}
	return []v1alpha1.AgentInterface{i}
}

// TestVoteOnPrefix_Hostile: one agent that reports very much takes no time from the others.
func TestVoteOnPrefix_Hostile(t *testing.T) {
	i := v1alpha1.AgentInterface{Name: "eth0"}
	for range 50000 {
		i.Addresses, i.Deprecated = append(i.Addresses, "2::1/64"), append(i.Deprecated, "2::2/64")
	}
	pool := &v1alpha1.AddressPool{Spec: v1alpha1.AddressPoolSpec{DynamicPrefix: &v1alpha1.PoolDynamicPrefix{Length: 64}}}
	agents := []*v1alpha1.NodeAgent{{Status: v1alpha1.NodeAgentStatus{Interfaces: []v1alpha1.AgentInterface{i}}}}
	began := time.Now()
	VoteOnPrefix(pool, allocator.HostsOf([]*corev1.Node{{}}, nil), agents, agents)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the vote takes %s", took)
	}
}
