package balancer

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

func (c *cluster) addPool(p *v1alpha1.AddressPool) {
	c.Helper()
	p.CreationTimestamp = metav1.Time{}
	if _, err := c.objects.AddressPools.Create(c.Context(), p, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
}

// poolReady waits until the pool's condition has been written about this generation, and returns it.
func (c *cluster) poolReady(name string) *metav1.Condition {
	c.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		p, err := c.objects.AddressPools.Get(c.Context(), name, metav1.GetOptions{})
		if err != nil {
			c.Fatal(err)
		}
		ready := meta.FindStatusCondition(p.Status.Conditions, readyCondition)
		if ready != nil && ready.ObservedGeneration == p.Generation {
			return ready
		}
	}
	c.Fatalf("AddressPool/%s: nobody has looked at it", name)
	return nil
}

// Whatever is wrong with a pool or a Service is said there, and nothing is written to anything else.
func TestCluster_BadInput(t *testing.T) {
	c := newCluster(t, addressPool("lan", "192.0.2.50-192.0.2.51"))
	c.create("good", annotated(v1alpha1.AddressesAnnotation, "192.0.2.50"), annotated(v1alpha1.ShareKeyAnnotation, "k"))
	c.within(5*time.Second, "good", reasonIs(allocator.AnnouncedReason))
	c.poolReady("lan")
	node, err := c.client.CoreV1().Nodes().Patch(t.Context(), "n1", types.MergePatchType,
		[]byte(`{"spec":{"podCIDR":"10.244.0.0/24","podCIDRs":["10.244.0.0/24"]}}`), metav1.PatchOptions{})
	if err != nil || len(node.Spec.PodCIDRs) != 1 {
		t.Fatal(node, err)
	}
	cidr, err := c.client.NetworkingV1().ServiceCIDRs().Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	good := c.version("good")
	for _, tt := range []struct{ name, ranges, want, reason string }{
		{"overlaps", "192.0.2.51-192.0.2.60", "addresses are also those of the older AddressPool/lan", "PoolNotReady"},
		{"a Node's address", "198.18.0.0/29", "198.18.0.1 is the InternalIP of Node/n1", overlapReason},
		{"pods", "10.244.0.128/25", "10.244.0.0/24 belongs to the pods of Node/n1", overlapReason},
		{"cluster IPs", cidr.Spec.CIDRs[0], "is ServiceCIDR/kubernetes: cluster IPs come from there", "PoolNotReady"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c.addPool(addressPool("other", tt.ranges))
			ready := c.poolReady("other")
			told := ready.Reason == tt.reason && strings.Contains(ready.Message, tt.want)
			if (ready.Status == metav1.ConditionTrue) != (tt.reason == overlapReason) || !told {
				t.Errorf("got %s %s: %s, want %q", ready.Status, ready.Reason, ready.Message, tt.want)
			}
			if err := c.objects.AddressPools.Delete(t.Context(), "other", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		})
	}
	c.refuseServices()
	if now := c.version("good"); now != good {
		t.Errorf("the good Service, its claim and its pool were written: %s, before %s", now, good)
	}
}

// refuseServices makes Services that want what they cannot have.
func (c *cluster) refuseServices() {
	asks := func(text string) func(*corev1.Service) { return annotated(v1alpha1.AddressesAnnotation, text) }
	for _, tt := range []struct {
		name, reason string
		change       func(*corev1.Service)
	}{
		{"an address of another one", "AddressInUse", asks("192.0.2.50")},
		{"an address outside of pools", "AddressOutsidePools", asks("203.0.113.1")},
		{"no address at all", "AddressOutsidePools", asks("first one please")},
		{"an address of another family", "NoSuchFamily", asks("2001:db8::1")},
		{"a pool that is not there", "PoolNotFound", annotated(v1alpha1.PoolAnnotation, "dmz")},
		{"the same port of an address that is shared", "SharingConflict", func(s *corev1.Service) {
			annotated(v1alpha1.ShareKeyAnnotation, "k")(s)
			asks("192.0.2.50")(s)
		}},
	} {
		c.Run(tt.name, func(t *testing.T) {
			c.create("bad", tt.change)
			if got := address(c.within(5*time.Second, "bad", reasonIs(tt.reason))); got != "" {
				t.Errorf("it has %s", got)
			}
			told := c.told()
			for began := time.Now(); !strings.Contains(told, tt.reason) && time.Since(began) < time.Minute; told += c.told() {
				time.Sleep(5 * time.Millisecond) // the Event comes after the condition
			}
			if !strings.Contains(told, tt.reason) {
				t.Errorf("Events: %q", told)
			}
			if err := c.client.CoreV1().Services("default").Delete(t.Context(), "bad", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// version is that of the Service, of its claim, and of the specification of pool lan.
func (c *cluster) version(name string) string {
	c.Helper()
	s := c.within(time.Second, name, reasonIs(allocator.AnnouncedReason))
	claim, err := c.client.NetworkingV1().IPAddresses().Get(c.Context(), address(s), metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return strings.Join([]string{s.ResourceVersion, claim.ResourceVersion, string(c.poolReady("lan").Status)}, " ")
}

// Services of MetalLB and of kube-vip keep the addresses in their status, which nobody takes away: not before there is
// a pool, nor while there is one that does not have them.
func TestCluster_ComesOver(t *testing.T) {
	c := newCluster(t)
	c.end()
	addresses := map[string]string{"metallb": "192.0.2.57", "kubevip": "192.0.2.53", "plain": "198.51.100.7"}
	for name, annotation := range map[string]string{
		"metallb": "metallb.io/loadBalancerIPs", "kubevip": "kube-vip.io/loadbalancerIPs", "plain": "example.com/none",
	} {
		c.create(name, annotated(annotation, addresses[name]))
		c.patch(name, `{"status":{"loadBalancer":{"ingress":[{"ip":"`+addresses[name]+`"}]}}}`, "status")
	}
	c.lead()
	c.create("young", onPort(81))
	c.create("ours", onPort(82), func(s *corev1.Service) { s.Spec.LoadBalancerClass = new(v1alpha1.LoadBalancerClass) })
	c.within(5*time.Second, "ours", hasAddress("198.18.0.1"))
	for name, want := range addresses {
		c.within(time.Second, name, func(s *corev1.Service) bool { return address(s) == want && allocator.Condition(s) == nil })
	}
	old := addressPool("lan", "192.0.2.50-192.0.2.60")
	old.Spec.AutoAssign = new(false)
	c.addPool(old)
	for _, name := range []string{"metallb", "kubevip"} {
		c.within(5*time.Second, name, reasonIs(allocator.AnnouncedReason))
	}
	c.within(5*time.Second, "plain", reasonIs("NoPoolServes"))
	c.within(5*time.Second, "young", reasonIs("NoPoolServes"))
	if got := c.claimed("192.0.2.57"); got == nil || got.Parent.Name != "metallb" {
		t.Errorf("the claim is %+v", got)
	}
	for name, want := range addresses {
		if got := address(c.within(time.Second, name, func(*corev1.Service) bool { return true })); got != want {
			t.Errorf("Service %s had %s and has %s", name, want, got)
		}
	}
	rest := addressPool("other", "198.51.100.0/28")
	rest.Spec.AutoAssign = new(false)
	c.addPool(rest)
	c.within(5*time.Second, "plain", func(s *corev1.Service) bool {
		return reasonIs(allocator.AnnouncedReason)(s) && address(s) == addresses["plain"]
	})
}
