package balancer

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

func TestReadPools(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1"},
		Spec:       corev1.NodeSpec{PodCIDRs: []string{"10.244.0.0/24"}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: "192.0.2.4"}, {Type: corev1.NodeHostName, Address: "n1"},
		}},
	}
	cidr := &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/12"}},
	}
	older := addressPool("zz-older", "203.0.113.0/25")
	for _, tt := range []struct {
		name   string
		ranges []string
		want   string // in the problem
	}{
		{"fine", []string{"192.0.2.8/29", "2001:db8::1"}, ""},
		{"beside the Node", []string{"192.0.2.4/30"}, ""}, // its first address is left out
		{"the Node's address", []string{"192.0.2.1-192.0.2.9"}, "192.0.2.4 is the InternalIP of Node/n1"},
		{"pods", []string{"10.244.0.77"}, "belongs to the pods of Node/n1"},
		{"cluster IPs", []string{"10.100.0.0/24"}, "10.96.0.0/12 is ServiceCIDR/kubernetes"},
		{"another pool", []string{"203.0.113.100-203.0.113.200"}, "older AddressPool/zz-older"},
		{"no address", []string{"192.0.2"}, "192.0.2"},
		{"backwards", []string{"192.0.2.9-192.0.2.1"}, "192.0.2.9-192.0.2.1"},
		{"two families", []string{"192.0.2.9-2001:db8::1"}, "192.0.2.9-2001:db8::1"},
		{"a zone", []string{"fe80::1%eth0"}, "zone"},
		{"too long", []string{"192.0.2.0/33"}, "192.0.2.0/33"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			young := addressPool("young", tt.ranges...)
			young.CreationTimestamp = metav1.NewTime(start.Add(time.Hour))
			for _, p := range readPools([]*v1alpha1.AddressPool{young, older}, []*corev1.Node{node}, []*networkingv1.ServiceCIDR{cidr}) {
				got := ""
				if p.problem != nil {
					got = p.problem.Error()
				}
				switch {
				case p.Name == "zz-older" && got != "":
					t.Errorf("the older pool suffers from the younger one: %s", got)
				case p.Name == "young" && ((got == "") != (tt.want == "") || !strings.Contains(got, tt.want)):
					t.Errorf("got %q, want %q", got, tt.want)
				}
			}
		})
	}
}

// An address that two pools have is counted once, where it comes from.
func TestCount_Overlapping(t *testing.T) {
	older, young := addressPool("older", "192.0.2.0/28"), addressPool("young", "192.0.2.0/29")
	young.CreationTimestamp = metav1.NewTime(start.Add(time.Hour))
	young.Spec.Priority = 1
	w := newWorld(young, older)
	for i := range 2 {
		w.add(fmt.Sprint(i), annotated(v1alpha1.AddressesAnnotation, fmt.Sprintf("192.0.2.%d", i+1)))
	}
	w.pass()
	delete(w.services, types.NamespacedName{Namespace: "default", Name: "1"})
	s := w.snapshot()
	p := allocate(s)
	for _, pool := range s.pools {
		got := pool.count(p, s.pools, w.now)
		want := v1alpha1.AddressPoolStatus{Available: "0"}
		if pool.Name == "older" {
			want = v1alpha1.AddressPoolStatus{Assigned: 1, Quarantined: 1, Available: "12"}
		}
		got.Conditions = nil
		if diff := cmp.Diff(want, *got); diff != "" {
			t.Errorf("AddressPool/%s (-want +got):\n%s", pool.Name, diff)
		}
	}
}

// A pool is used up to its last address, each once.
func TestFirstFree(t *testing.T) {
	p := readPool(addressPool("lan", "192.0.2.0/30", "198.51.100.7", "2001:db8::/126", "255.255.255.255"))
	used := map[netip.Addr]bool{}
	free := func(a netip.Addr) bool { return !used[a] }
	for _, ipv6 := range []bool{false, true} {
		for {
			address, ok := firstFree(p.set.Ranges(), ipv6, fmt.Sprint(len(used)), free)
			if !ok {
				break
			}
			if used[address] || address.Is6() != ipv6 || !p.set.Contains(address) {
				t.Fatalf("got %s", address)
			}
			used[address] = true
		}
	}
	if got := len(used); got != 2+1+1+4 {
		t.Errorf("got %d addresses", got)
	}
}

// The level of an address is that of its pool when it was given. Peers that come and go change nothing: a pool that
// names another level does.
func TestLevel(t *testing.T) {
	w := newWorld(addressPool("lan", "192.0.2.0/24"))
	w.pools[0].Spec.Level = v1alpha1.LevelAuto
	first := w.add("first")
	expect := func(when string, s *corev1.Service, want v1alpha1.Level) {
		t.Helper()
		p := w.pass()
		if got := p.claims[netip.MustParseAddr(p.of(s))].level; got != want {
			t.Errorf("%s: Service %s is at level %s, want %s", when, s.Name, got, want)
		}
	}
	expect("no peer", first, v1alpha1.LevelL2)
	w.peers = true
	expect("the first peer", first, v1alpha1.LevelL2)
	second := w.add("second")
	expect("with a peer", second, v1alpha1.LevelBGP)
	w.peers = false
	expect("the peer has gone", second, v1alpha1.LevelBGP)
	w.pools[0].Spec.Level = v1alpha1.LevelBGP
	expect("the pool says so", first, v1alpha1.LevelBGP)
	w.pools[0].Spec.Level = v1alpha1.LevelL2
	expect("the pool says so", second, v1alpha1.LevelL2)
	w.objects[w.pass().of(second)].Annotations[v1alpha1.ClaimLevelAnnotation] = ""
	w.pools[0].Spec.Level = v1alpha1.LevelAuto
	w.peers = true
	expect("it is lost", second, v1alpha1.LevelBGP)
	expect("the pool says nothing any more", first, v1alpha1.LevelL2)
}
