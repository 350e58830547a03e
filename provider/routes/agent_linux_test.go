package routes

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// running is an agent in a namespace, and what it reported last.
type running struct {
	*machine
	source *fcache.FakeControllerSource
	link   int
	addOns *AddOns
	agent  *Agent
	stop   func()
}

// newRunning makes the machine of Node a, in a network with others. The agent is started by start.
func newRunning(t testing.TB) *running {
	t.Helper()
	r := &running{machine: newMachine(t), source: fcache.NewFakeControllerSource(), addOns: knownAddOns("")}
	r.Connect("eth0", newMachine(t).Machine, "far")
	r.Address("eth0", "192.0.2.1/24", "2001:db8::1/64")
	r.route("0.0.0.0/0", "192.0.2.254")
	r.link = r.Link("eth0").Attrs().Index
	return r
}

// start runs an agent until stop, or the end of the test.
func (r *running) start(nodes ...*corev1.Node) {
	r.t.Helper()
	for _, n := range nodes {
		r.source.Add(n)
	}
	informer := cache.NewSharedIndexInformer(r.source, &corev1.Node{}, 0, nil)
	agent := &Agent{Node: "a", Nodes: informer, Kernel: r.Kernel, AddOns: r.addOns, Changed: func() {}}
	r.agent = agent
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { informer.RunWithContext(ctx) })
	group.Go(func() {
		if err := agent.Run(ctx); err != nil {
			r.t.Error(err)
		}
	})
	r.stop = sync.OnceFunc(func() { cancel(); group.Wait() })
	r.t.Cleanup(r.stop)
}

func (r *running) reported() ([]v1alpha1.AgentRoute, []v1alpha1.RouteProblem) {
	routes, problems, _ := r.agent.Routes()
	return routes, problems
}

// has waits until the routes to pods are these: "DESTINATION via VIA", "unreachable DESTINATION", and "protocol N ..."
// for those of others.
func (r *running) has(want ...string) {
	r.t.Helper()
	var got []string
	eventuallyOr(r.t, func() bool { got = r.words(); return slices.Equal(got, want) }, func() {
		r.t.Fatalf("routes (-want +got):\n%s", cmp.Diff(want, got))
	})
}

func eventuallyOr(t testing.TB, check func() bool, fail func()) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !check(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			fail()
		}
	}
}

func (r *running) words() []string {
	var list []string
	for _, p := range r.pods() {
		text := p.Destination.String()
		if p.Via.IsValid() {
			text += " via " + p.Via.String()
		}
		if p.Unreachable {
			text = "unreachable " + text
		}
		if !p.ours() {
			text = fmt.Sprintf("protocol %d %s", p.Protocol, text)
		}
		list = append(list, text)
	}
	return list
}

var (
	nodeA = node("a", []string{"192.0.2.1", "2001:db8::1"}, "10.244.0.0/24", "fd00:10:244::/64")
	nodeB = node("b", []string{"192.0.2.2", "2001:db8::2"}, "10.244.1.0/24", "fd00:10:244:1::/64")
	nodeC = node("c", []string{"192.0.2.3", "2001:db8::3"}, "10.244.2.0/24")
)

const (
	routeA, routeA6 = "unreachable 10.244.0.0/24", "unreachable fd00:10:244::/64"
	routeB, routeB6 = "10.244.1.0/24 via 192.0.2.2", "fd00:10:244:1::/64 via 2001:db8::2"
	routeC          = "10.244.2.0/24 via 192.0.2.3"
)

func TestKernel_Agent(t *testing.T) {
	r := newRunning(t)
	// What a former agent left, and what belongs to others.
	ours := route{
		Destination: netip.MustParsePrefix("10.244.9.0/24"), Via: netip.MustParseAddr("192.0.2.9"), Link: r.link,
		Metric: metric, Protocol: v1alpha1.RouteProtocol,
	}
	old := ours
	old.Destination, old.Via = netip.MustParsePrefix("10.244.1.0/24"), netip.MustParseAddr("192.0.2.77")
	for _, left := range []route{ours, old} {
		if err := r.apply(change{verb: add, route: left}); err != nil {
			t.Fatal(err)
		}
	}
	r.route("10.244.8.0/24", "192.0.2.8")
	const theirs = "protocol 3 10.244.8.0/24 via 192.0.2.8"

	r.start(nodeA, nodeB, nodeC)
	r.has(routeA, routeB, routeC, theirs, routeA6, routeB6)
	wantRoutes := []v1alpha1.AgentRoute{
		{Destination: "10.244.0.0/24", Node: "a"},
		{Destination: "10.244.1.0/24", Via: "192.0.2.2", Node: "b"},
		{Destination: "10.244.2.0/24", Via: "192.0.2.3", Node: "c"},
		{Destination: "fd00:10:244::/64", Node: "a"},
		{Destination: "fd00:10:244:1::/64", Via: "2001:db8::2", Node: "b"},
	}
	eventually(t, "it is reported", func() bool {
		routes, problems := r.reported()
		return cmp.Equal(wantRoutes, routes) && len(problems) == 0
	})

	t.Run("what somebody removes is back in milliseconds", func(t *testing.T) {
		var slowest time.Duration
		for range 5 {
			time.Sleep(2 * minPause) // as nothing had happened for a while
			routed := r.pods()
			if err := r.apply(change{verb: remove, route: routed[1]}); err != nil {
				t.Fatal(err)
			}
			slowest = max(slowest, eventually(t, "the route is back", func() bool { return slices.Equal(routed, r.pods()) }))
		}
		t.Logf("repaired after %s at most", slowest)
		if slowest > resyncPeriod/4 { // far below that, and it takes a busy machine more than milliseconds
			t.Errorf("repaired after %s", slowest)
		}
	})
	t.Run("a Node that gets another address has no moment without a route", func(t *testing.T) {
		events := make(chan netlink.RouteUpdate, 100)
		done := make(chan struct{})
		err := netlink.RouteSubscribeWithOptions(events, done, netlink.RouteSubscribeOptions{Namespace: &r.namespace})
		if err != nil {
			t.Fatal(err)
		}
		r.source.Modify(node("b", []string{"192.0.2.22", "2001:db8::22"}, nodeB.Spec.PodCIDRs...))
		r.has(routeA, "10.244.1.0/24 via 192.0.2.22", routeC, theirs, routeA6, "fd00:10:244:1::/64 via 2001:db8::22")
		close(done)
		for len(events) > 0 {
			if u := <-events; u.Type == unix.RTM_DELROUTE && u.Dst != nil {
				t.Errorf("the route to %s was removed", u.Dst)
			}
		}
	})
	t.Run("somebody else's route for the range wins, and ours comes back after it", func(t *testing.T) {
		r.source.Modify(nodeB)
		r.has(routeA, routeB, routeC, theirs, routeA6, routeB6)
		bird := r.foreign("10.244.1.0/24", "192.0.2.200", 12, 32, "eth0")
		if err := r.handle.RouteAdd(bird); err != nil {
			t.Fatal(err)
		}
		r.has(routeA, "protocol 12 10.244.1.0/24 via 192.0.2.200", routeC, theirs, routeA6, routeB6)
		eventually(t, "it is reported", func() bool {
			_, problems := r.reported()
			return len(problems) == 1 && problems[0].Reason == Foreign && problems[0].Destination == "10.244.1.0/24"
		})
		if err := r.handle.RouteDel(bird); err != nil {
			t.Fatal(err)
		}
		r.has(routeA, routeB, routeC, theirs, routeA6, routeB6)
	})
	t.Run("an interface that was down gets its routes back", func(t *testing.T) {
		if err := r.handle.LinkSetDown(r.Link("eth0")); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the kernel drops them", func() bool { return len(r.pods()) <= 2 })
		r.Up("eth0")
		r.Address("eth0", "2001:db8::1/64")   // an interface that goes down loses its IPv6 addresses
		r.route("10.244.8.0/24", "192.0.2.8") // theirs, by themselves
		r.has(routeA, routeB, routeC, theirs, routeA6, routeB6)
	})
	t.Run("another agent goes on, and one that stops leaves everything", func(t *testing.T) {
		r.stop()
		r.has(routeA, routeB, routeC, theirs, routeA6, routeB6)
		r.source.Delete(nodeC)
		r.start()
		r.has(routeA, routeB, theirs, routeA6, routeB6)
	})
}

// A machine in another network is reported, and nothing is sent to a gateway.
func TestKernel_AgentUnreachable(t *testing.T) {
	r := newRunning(t)
	r.start(nodeA, nodeB, node("far", []string{"203.0.113.5"}, "10.244.2.0/24"))
	r.has(routeA, routeB, routeA6, routeB6)
	eventually(t, "it is reported", func() bool {
		_, problems := r.reported()
		return len(problems) == 1 && problems[0] == v1alpha1.RouteProblem{
			Destination: "10.244.2.0/24", Node: "far", Reason: Unreachable,
			Message: "203.0.113.5 is in none of this machine's networks: pod routes need a next hop that is",
		}
	})
}

// With a network add-on at work, not even what we left is touched. A Node list without the own Node is not believed.
func TestKernel_AgentChangesNothing(t *testing.T) {
	unasked := &AddOns{Client: kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://127.0.0.1:1"})} // where nobody answers
	for _, tt := range []struct {
		name   string
		nodes  []*corev1.Node
		addOns *AddOns
	}{
		{"beside a network add-on that has just come", []*corev1.Node{withCondition(nodeA, "FlannelIsUp", 0)}, knownAddOns("")},
		{"beside one that has a DaemonSet", []*corev1.Node{withCondition(nodeA, "FlannelIsUp", time.Hour)}, knownAddOns("flannel")},
		{"while nobody can be asked", []*corev1.Node{withCondition(nodeA, "FlannelIsUp", time.Hour)}, unasked},
		{"its own Node is not among them", []*corev1.Node{nodeB}, knownAddOns("")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRunning(t)
			left := change{verb: add, route: route{
				Destination: netip.MustParsePrefix("10.244.9.0/24"), Via: netip.MustParseAddr("192.0.2.9"), Link: r.link,
				Metric: metric, Protocol: v1alpha1.RouteProtocol,
			}}
			if err := r.apply(left); err != nil {
				t.Fatal(err)
			}
			r.addOns = tt.addOns
			r.start(tt.nodes...)
			time.Sleep(300 * time.Millisecond) // for something that must not happen
			if diff := cmp.Diff([]string{"10.244.9.0/24 via 192.0.2.9"}, r.words()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// What an add-on left on the own Node that has no DaemonSet any more stops nothing, and what other Nodes say never does.
func TestKernel_AgentAfterAnAddOn(t *testing.T) {
	r := newRunning(t)
	r.start(withCondition(nodeA, "FlannelIsUp", time.Hour), withCondition(nodeB, "CalicoIsUp", 0))
	r.has(routeA, routeB, routeA6, routeB6)
}

// An API server that does not answer at the start: the routes of the agent before stay.
func TestKernel_AgentWithoutNodes(t *testing.T) {
	r := newRunning(t)
	r.start(nodeA, nodeB)
	r.has(routeA, routeB, routeA6, routeB6)
	r.stop()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	unanswered := cache.NewSharedIndexInformer(r.source, &corev1.Node{}, 0, nil) // which nobody runs
	agent := &Agent{Node: "a", Nodes: unanswered, Kernel: r.Kernel, Changed: func() {}}
	if err := agent.Run(ctx); err != nil {
		t.Fatal(err)
	}
	r.has(routeA, routeB, routeA6, routeB6)
}
