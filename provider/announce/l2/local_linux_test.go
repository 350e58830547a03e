package l2

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/provider/announce"
)

// What an endpoint says of itself: it is ready, or it was told to end and still serves.
var (
	ready  = conditions(true, true, false)
	ending = conditions(false, true, true)
)

// ends are endpoints by Node.
type ends = map[string]discoveryv1.EndpointConditions

func conditions(ready, serving, terminating bool) discoveryv1.EndpointConditions {
	return discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating}
}

// localAgents are agents of a Service with externalTrafficPolicy Local.
type localAgents struct {
	*agents
	address netip.Addr
}

// newLocalAgents makes agents of which "a" may have the address.
func newLocalAgents(t *testing.T) *localAgents {
	t.Helper()
	address := netip.MustParseAddr("10.8.0.100")
	claim := announce.Claim{Address: address, Probed: true, Services: []types.NamespacedName{{Namespace: "shop", Name: "web"}}}
	a := &localAgents{newAgents(t, claim), address}
	for name := range a.view.Agents {
		a.reportInterface(name)
	}
	a.endpoints(ends{"a": ready})
	return a
}

// observeFirst starts all agents, and an observer once "a" has the address.
func (a *localAgents) observeFirst() *observer {
	a.t.Helper()
	a.startAll()
	a.owner(a.address, "", 10*time.Second)
	return a.observe(a.address)
}

// endpoints are what the agents of some Nodes learn; of none: those of all.
func (a *localAgents) endpoints(of ends, nodes ...string) {
	service := &corev1.Service{Spec: corev1.ServiceSpec{ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal}}
	e := announce.Endpoints{Services: map[string]*corev1.Service{"shop/web": service}}
	meta := metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}
	for name, c := range of {
		slice := &discoveryv1.EndpointSlice{ObjectMeta: meta, Endpoints: []discoveryv1.Endpoint{{NodeName: &name, Conditions: c}}}
		e.Slices = append(e.Slices, slice)
	}
	a.view.Claims = slices.Clone(a.view.Claims) // agents have the former ones
	a.view.SetCandidates(e)
	for name, l2 := range a.list {
		if len(nodes) == 0 || slices.Contains(nodes, name) {
			view := a.view
			view.Node = name
			l2.Set(&view)
		}
	}
}

// early is for the next endpoints, of Nodes that do not own the address.
func (a *localAgents) early(early bool) {
	a.view.Claims = slices.Clone(a.view.Claims)
	a.view.Claims[0].Early = early
}

// The owner's endpoint is told to end while another Node has one that is ready: that Node takes the address before the
// endpoint has ended, and the former owner answers until then, whoever of them learns of it first.
func TestL2_LocalEndpointMoves(t *testing.T) {
	for _, tt := range []struct {
		name  string
		first []string // who learns of it before the others, which do after late
		late  time.Duration
	}{
		{name: "all learn of it at once"},
		{name: "the owner learns of it last", first: []string{"b", "c"}, late: 300 * time.Millisecond},
		{name: "the owner learns of it first", first: []string{"a"}, late: 300 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newLocalAgents(t)
			o := a.observeFirst()
			a.endpoints(ends{"a": ready, "b": ready})
			time.Sleep(500 * time.Millisecond)
			if !a.list["a"].Owns(a.address) {
				t.Fatal("an endpoint on another Node has moved the address")
			}

			began := time.Now()
			a.endpoints(ends{"a": ending, "b": ready}, tt.first...)
			if tt.late > 0 {
				time.Sleep(tt.late)
				if !a.list["a"].Owns(a.address) {
					t.Error("the former owner has not waited for the next")
				}
				a.endpoints(ends{"a": ending, "b": ready})
			}
			owner, took := a.owner(a.address, "a", within(time.Second))
			time.Sleep(200 * time.Millisecond)
			gap, back := o.gaps(began)
			t.Logf("%s has it %s after the last has learned of it; no answer for %s", owner, took, gap)
			if limit := within(250 * time.Millisecond); owner != "b" || took > limit || gap > limit || back {
				t.Errorf("%s has it after %s; no answer for %s, two owners: %t", owner, took, gap, back)
			}
		})
	}
}

// As long as no other Node can take the address, the one whose endpoint ends answers.
func TestL2_LocalEndpointEnds(t *testing.T) {
	a := newLocalAgents(t)
	a.start("a")
	a.start("c")
	a.owner(a.address, "", 10*time.Second)
	o := a.observe(a.address)
	began := time.Now()
	a.endpoints(ends{"a": ending})
	time.Sleep(500 * time.Millisecond)
	a.endpoints(ends{"a": ending, "b": ready}) // which has no agent
	time.Sleep(time.Second)
	if !a.list["a"].Owns(a.address) {
		t.Fatal("the address was given up for nobody")
	}
	a.start("b")
	if owner, _ := a.owner(a.address, "a", 5*time.Second); owner != "b" {
		t.Errorf("%s has it, want b", owner)
	}
	time.Sleep(200 * time.Millisecond)
	if gap, back := o.gaps(began); gap > within(250*time.Millisecond) || back {
		t.Errorf("no answer for %s, two owners: %t", gap, back)
	}
}

// A Node that does not carry packets yet leaves an address to its owner, but not to nobody.
func TestL2_LocalEndpointIsEarly(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(a *localAgents)
		limit  time.Duration // until the next owner answers
	}{
		{
			name:   "then it does",
			change: func(a *localAgents) { a.early(false); a.endpoints(ends{"a": ending, "b": ready}) },
			limit:  within(250 * time.Millisecond),
		},
		{name: "the owner dies", change: func(a *localAgents) { a.kill("a") }, limit: within(1500 * time.Millisecond)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newLocalAgents(t)
			o := a.observeFirst()
			a.early(true)
			a.endpoints(ends{"a": ending, "b": ready})
			time.Sleep(500 * time.Millisecond)
			if !a.list["a"].Owns(a.address) {
				t.Error("it was taken too early")
			}
			began := time.Now()
			tt.change(a)
			owner, took := a.owner(a.address, "a", 3*time.Second)
			time.Sleep(200 * time.Millisecond)
			gap, back := o.gaps(began)
			t.Logf("%s has it after %s; no answer for %s", owner, took, gap)
			if owner != "b" || gap > tt.limit || back {
				t.Errorf("%s has it after %s; no answer for %s, two owners: %t", owner, took, gap, back)
			}
		})
	}
}
