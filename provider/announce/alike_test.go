package announce

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Claims that share a list of Nodes have the candidates that each would have alone.
func TestView_SetCandidates_Alike(t *testing.T) {
	for seed := range uint64(300) {
		v, e := anyView(rand.New(rand.NewPCG(seed, 1)))
		together := *v
		together.Claims = slices.Clone(v.Claims)
		together.SetCandidates(e)
		for _, got := range together.Claims {
			alone := *v
			alone.Claims = []Claim{{
				Address: got.Address, Level: got.Level, Pool: got.Pool, Services: got.Services, Probed: got.Probed,
			}}
			alone.SetCandidates(e)
			if diff := cmp.Diff(alone.Claims[0], got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Fatalf("seed %d, %s (-alone +together):\n%s", seed, got.Address, diff)
			}
			for _, name := range v.candidatesOneByOne(got, e) {
				if !slices.Contains(got.Candidates, name) {
					t.Fatalf("seed %d, %s: %v lacks %s", seed, got.Address, got.Candidates, name)
				}
			}
			if want := v.candidatesOneByOne(got, e); len(want) != len(got.Candidates) {
				t.Fatalf("seed %d, %s: candidates are %v, want %v", seed, got.Address, got.Candidates, want)
			}
		}
	}
}

// candidatesOneByOne asks of each Node what the documentation says.
func (v *View) candidatesOneByOne(c Claim, e Endpoints) []string {
	local := e.localNodes([]Claim{c})
	lacks := func(local localEndpoints, node string) bool {
		return slices.ContainsFunc(c.Deciding(), func(service types.NamespacedName) bool {
			nodes, wants := local[service]
			return wants && nodes[node] == endpointNone
		})
	}
	find := func(local localEndpoints) (eligible []string) {
		var excluded []string
		for name, node := range v.Nodes {
			pool := v.Pools[c.Pool]
			switch {
			case v1alpha1.Leaving(node) != "", pool != nil && pool.Spec.Nodes != nil && !slices.Contains(v.matching(pool.Spec.Nodes, []string{name}), name),
				v.Agents[name] == nil && (name != v.Node || c.Level.Elected()):
				continue
			case c.Level.OnLink() && InterfaceFor(c.Address, v.Agents[name].Status.Interfaces, v.InterfacesOf(c)) == "", lacks(local, name):
				continue
			}
			if _, labelled := node.Labels[v1alpha1.ExcludeLabel]; labelled && v.policy(c) != v1alpha1.ExcludeIgnore {
				excluded = append(excluded, name)
			} else {
				eligible = append(eligible, name)
			}
		}
		if len(eligible) == 0 && v.policy(c) == v1alpha1.ExcludeAuto {
			return excluded
		}
		return eligible
	}
	found := find(local)
	if len(found) == 0 && !c.Probed && c.Level.OnLink() {
		return find(nil)
	}
	return found
}

// anyView is a cluster with Nodes in several subnets, pools of all kinds, and Services of both policies.
func anyView(r *rand.Rand) (*View, Endpoints) {
	v := &View{Node: "w0", Nodes: map[string]*corev1.Node{}, Agents: map[string]*v1alpha1.NodeAgent{}}
	one := func(list ...string) string { return list[r.IntN(len(list))] }
	for n := range 1 + r.IntN(8) {
		name := fmt.Sprintf("w%d", n)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": one("a", "b")}}}
		if r.IntN(4) == 0 {
			node.Labels[v1alpha1.ExcludeLabel] = ""
		}
		if r.IntN(8) == 0 {
			node.Labels[v1alpha1.DrainLabel] = "true"
		}
		v.Nodes[name] = node
		if r.IntN(6) > 0 {
			agent := &v1alpha1.NodeAgent{}
			for _, i := range []string{"eth0", "eth1"}[:r.IntN(3)] {
				agent.Status.Interfaces = append(agent.Status.Interfaces, v1alpha1.AgentInterface{
					Name: i, MAC: one("02:00:00:00:00:01", ""), Addresses: []string{
						one("192.0.2.11/24", "192.0.2.11/25", "192.0.2.130/25", "192.0.2.7/32", "no prefix"), one("198.51.100.1/24", "2001:db8::1/64"),
					},
				})
			}
			v.Agents[name] = agent
		}
	}
	rack := &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "a"}}
	v.Pools = map[string]*v1alpha1.AddressPool{
		"all": {}, "rack": {Spec: v1alpha1.AddressPoolSpec{Nodes: rack, ExcludeLabel: v1alpha1.ExcludeIgnore}},
		"wired": {Spec: v1alpha1.AddressPoolSpec{Interfaces: []string{"eth1"}, PreferredNodes: v1alpha1.PoolPreferredNodes{Selector: rack}}},
	}
	e := Endpoints{Services: map[string]*corev1.Service{}}
	for n, address := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.200", "198.51.100.9", "203.0.113.1", "2001:db8::9", "192.0.2.7"} {
		name := types.NamespacedName{Namespace: "shop", Name: fmt.Sprintf("s%d", n)}
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
		if r.IntN(2) == 0 {
			service.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		}
		e.Services[name.String()] = service
		slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
			Namespace: name.Namespace, Name: name.Name, Labels: map[string]string{discoveryv1.LabelServiceName: name.Name},
		}}
		for range r.IntN(3) {
			ready := r.IntN(2) == 0
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
				NodeName:   new(fmt.Sprintf("w%d", r.IntN(4))),
				Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: new(true), Terminating: new(!ready)},
			})
		}
		e.Slices = append(e.Slices, slice)
		v.Claims = append(v.Claims, Claim{
			Address: netip.MustParseAddr(address), Level: []v1alpha1.Level{v1alpha1.LevelL2, v1alpha1.LevelBGP}[r.IntN(2)],
			Pool: one("all", "rack", "wired", "gone"), Services: []types.NamespacedName{name}, Probed: r.IntN(2) == 0,
		})
	}
	return v, e
}
