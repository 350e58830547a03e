package routes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// served answers for three Nodes, each of which has a range of 10.244.N.0/24, and knows the network add-ons. Others are
// in the place of those of the same name.
func served(t *testing.T, addOn string, others ...*corev1.Node) *Routes {
	t.Helper()
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	c := nodeC.DeepCopy()
	c.UID = uidC
	for _, n := range append([]*corev1.Node{nodeA, nodeB, c}, others...) {
		if err := nodes.Add(n); err != nil {
			t.Fatal(err)
		}
	}
	return &Routes{
		Nodes: corelisters.NewNodeLister(nodes), Synced: func() error { return nil }, AddOns: knownAddOns(addOn),
	}
}

// knownAddOns has been answered that there is this one; empty: that there is none.
func knownAddOns(owner string) *AddOns {
	return &AddOns{owner: owner, known: true, lookedAt: time.Now()}
}

// spoken is a report of an agent, and when it gave a sign of life last.
type spoken struct {
	*v1alpha1.NodeRoutes
	renewed time.Time
}

// said is a report of an agent: the routes that it has are to the Nodes named, and its problems with the others.
func said(name string, age time.Duration, has string, lacks string) spoken {
	agent := spoken{&v1alpha1.NodeRoutes{ObjectMeta: metav1.ObjectMeta{Name: name}}, time.Now().Add(-age)}
	for n, other := range []*corev1.Node{nodeA, nodeB, nodeC} {
		destination := fmt.Sprintf("10.244.%d.0/24", n)
		if strings.Contains(has, other.Name) {
			route := v1alpha1.AgentRoute{Destination: destination, Node: other.Name, Via: other.Status.Addresses[0].Address}
			if other.Name == name {
				route.Via = ""
			}
			agent.Routes = append(agent.Routes, route)
		}
		if strings.Contains(lacks, other.Name) {
			agent.Problems = append(agent.Problems, v1alpha1.RouteProblem{
				Destination: destination, Node: other.Name, Reason: Unreachable, Message: "no way",
			})
		}
	}
	return agent
}

// before is what the agent of c said, and made says how it is that of another machine.
func before(made func(spoken)) spoken {
	agent := said("c", 0, "abc", "")
	agent.OwnerReferences = []metav1.OwnerReference{{Kind: "Node", Name: "c", UID: uidC}}
	made(agent)
	return agent
}

// withRefused is a report about a Node d that wants more than it may have.
func withRefused(agent spoken) spoken {
	for n := range 5 {
		agent.Problems = append(agent.Problems, v1alpha1.RouteProblem{
			Destination: fmt.Sprintf("10.244.0.%d/32", n), Node: "d", Reason: Rejected, Message: "it may not",
		})
	}
	return agent
}

// lives is the sign of life.
func (s spoken) lives() *v1alpha1.NodeAgent {
	agent := &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: s.Name}}
	agent.Status.RenewTime = metav1.NewMicroTime(s.renewed)
	return agent
}

func (r *Routes) hear(agents ...spoken) {
	for _, agent := range agents {
		r.reports.take(agent.renewed, agent.lives()) // as with clocks that are the same
		r.reports.take(agent.renewed, agent.NodeRoutes)
	}
}

func routeTo(n *corev1.Node) *cloudprovider.Route {
	return &cloudprovider.Route{
		TargetNode: types.NodeName(n.Name), DestinationCIDR: n.Spec.PodCIDRs[0], TargetNodeAddresses: n.Status.Addresses,
	}
}

// Upstream asks for all routes every ten seconds, and that asks each agent's report about each Node: what a report says of its own Node is
// not counted again for each of them.
func TestRoutes_AcknowledgedByManyAgents(t *testing.T) {
	const count = 100
	var r reports
	nodes := map[string]*corev1.Node{}
	for i := range count {
		n := nodeA.DeepCopy()
		n.Name = fmt.Sprint("n", i)
		nodes[n.Name] = n
	}
	now := time.Now()
	for name := range nodes {
		report := &v1alpha1.NodeRoutes{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for i := range count {
			report.Routes = append(report.Routes, v1alpha1.AgentRoute{
				Destination: fmt.Sprintf("10.244.%d.0/24", i), Node: fmt.Sprint("n", i), Via: nodeA.Status.Addresses[0].Address,
			})
		}
		r.take(now, report)
		r.take(now, &v1alpha1.NodeAgent{ObjectMeta: report.ObjectMeta, Status: v1alpha1.NodeAgentStatus{RenewTime: metav1.NewMicroTime(now)}})
	}
	exists := func(name string) bool { return nodes[name] != nil }
	allocations := testing.AllocsPerRun(10, func() {
		if dissent, err := r.acknowledged(now, nodes["n7"], "10.244.7.0/24", exists); dissent != nil || err != nil {
			t.Fatal(dissent, err)
		}
	})
	if allocations > count/2 {
		t.Errorf("%.0f allocations for one route and the reports of %d agents: the work grows with the routes of each report", allocations, count)
	}
}
