package balancer

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
)

// The life of an address, against a real API server. Announcements are in the reports of agents, and later apart.
func TestCluster_Addresses(t *testing.T) {
	c := newCluster(t, addressPool("lan", "192.0.2.50-192.0.2.51"))
	c.create("web")
	s := c.within(5*time.Second, "web", reasonIs(allocator.AnnouncedReason))
	first := address(s)
	if first == "" || s.Annotations[v1alpha1.AllocatedAnnotation] != first || c.claimed(first).Probed.IsZero() {
		t.Fatalf("got status %+v, annotations %v", s.Status, s.Annotations)
	}
	began := time.Now()
	c.patch("web", `{"status":{"loadBalancer":null}}`, "status")
	c.within(time.Second, "web", hasAddress(first))
	t.Logf("a cleared status is repaired after %s", time.Since(began).Round(time.Millisecond))

	c.apart.Store(true)
	c.lead() // another leader, and another release of agents
	c.create("second")
	second := address(c.within(5*time.Second, "second", reasonIs(allocator.AnnouncedReason)))
	c.create("third")
	c.within(5*time.Second, "third", reasonIs("PoolExhausted"))
	if got := address(c.within(time.Second, "web", hasAddress(first))); second == first || second == "" {
		t.Errorf("got %s, then %s", got, second)
	}
	if told := c.told(); !strings.Contains(told, "PoolExhausted") || !strings.Contains(told, "add a range") {
		t.Errorf("Events: %s", told)
	}

	// Deleted, and made again within its quarantine. The third one goes on waiting.
	if err := c.client.CoreV1().Services("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for c.claimed(first).Released.IsZero() {
		time.Sleep(10 * time.Millisecond)
	}
	c.create("web")
	c.within(5*time.Second, "web", hasAddress(first))
	c.within(time.Second, "third", reasonIs("PoolExhausted"))

	// An edit of the pool moves nothing, and says so.
	_, err := c.objects.AddressPools.Patch(t.Context(), "lan", types.MergePatchType, []byte(`{"spec":{"ranges":["192.0.2.99"]}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.within(5*time.Second, "third", hasAddress("192.0.2.99"))
	c.within(5*time.Second, "web", reasonIs(allocator.OutOfPoolReason))
	pool, err := c.objects.AddressPools.Get(t.Context(), "lan", metav1.GetOptions{})
	if err != nil || pool.Status.Assigned != 1 || pool.Status.Available != "0" {
		t.Errorf("pool: %+v, %v", pool.Status, err)
	}
}

// Nothing is published before an agent announces it, and its silence is said.
func TestCluster_NotAnnounced(t *testing.T) {
	c := newCluster(t)
	c.end()
	c.silent.Store(true)
	c.lead()
	pool := addressPool("lan", "192.0.2.50")
	if _, err := c.objects.AddressPools.Create(t.Context(), pool, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.create("web", annotated(v1alpha1.PoolAnnotation, "lan"))
	s := c.within(5*time.Second, "web", func(s *corev1.Service) bool { return s.Annotations[v1alpha1.AllocatedAnnotation] != "" })
	if reasonIs("NotAnnounced")(s) {
		t.Errorf("agents have no time to announce it: %+v", allocator.Condition(s))
	}
	c.ahead.Add(int64(evaluation.AnnounceTime))
	c.leader.changed()
	s = c.within(5*time.Second, "web", reasonIs("NotAnnounced"))
	if got := address(s); got != "" {
		t.Errorf("%s is published", got)
	}
	if _, err := c.leader.EnsureLoadBalancer(t.Context(), "", s, nil); err == nil {
		t.Error("EnsureLoadBalancer says that all is well")
	}
}

// An IPAddress of somebody else is taken, whatever it is for.
func TestCluster_TakenByOthers(t *testing.T) {
	c := newCluster(t, addressPool("lan", "192.0.2.50-192.0.2.51"))
	_, err := c.client.NetworkingV1().IPAddresses().Create(t.Context(), &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: "192.0.2.50"},
		Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "things", Name: "x"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.create("asks", annotated(v1alpha1.AddressesAnnotation, "192.0.2.50"))
	c.within(5*time.Second, "asks", reasonIs("AddressInUse"))
	c.create("any")
	c.within(5*time.Second, "any", hasAddress("192.0.2.51"))
}

// Our class has the finalizer from us, and other classes nothing.
func TestCluster_Classes(t *testing.T) {
	c := newCluster(t, addressPool("lan", "192.0.2.50-192.0.2.60"))
	class := func(name string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.LoadBalancerClass = &name }
	}
	c.create("theirs", class("example.com/lb"))
	c.create("ours", class(v1alpha1.LoadBalancerClass))
	s := c.within(5*time.Second, "ours", reasonIs(allocator.AnnouncedReason))
	if len(s.Finalizers) != 1 || address(s) == "" {
		t.Errorf("finalizers %v, status %+v", s.Finalizers, s.Status)
	}
	if _, exists, err := c.leader.GetLoadBalancer(t.Context(), "", s); !exists || err != nil {
		t.Errorf("GetLoadBalancer: %t, %v", exists, err)
	}
	if err := c.leader.EnsureLoadBalancerDeleted(t.Context(), "", &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "never", Namespace: "default"}}); err != nil {
		t.Error(err)
	}
	c.within(time.Second, "theirs", func(s *corev1.Service) bool { return address(s) == "" && allocator.Condition(s) == nil })
}

// Without pools, Services have the addresses of Nodes, and follow them; the first pool takes over without a gap.
func TestCluster_NodeIP(t *testing.T) {
	c := newCluster(t)
	c.create("web")
	c.within(5*time.Second, "web", hasAddress("198.18.0.1"))
	c.node("n2", "198.18.0.2")
	c.within(5*time.Second, "web", hasAddress("198.18.0.1,198.18.0.2"))
	c.create("ssh", onPort(22))
	c.within(5*time.Second, "ssh", reasonIs("PortReserved"))
	c.create("second")
	c.within(5*time.Second, "second", reasonIs("PortReserved"))
	c.create("local", onPort(81), func(s *corev1.Service) {
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	})
	s := c.within(5*time.Second, "local", reasonIs("NoReadyEndpoint"))
	if got := address(s); got != "198.18.0.1,198.18.0.2" {
		t.Errorf("a Service without an endpoint has %q", got)
	}
	for _, name := range []string{"n1", "n2"} {
		patch := []byte(`{"metadata":{"labels":{"` + v1alpha1.ExcludeLabel + `":""}}}`)
		if _, err := c.client.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"n1": "198.18.0.2", "n2": "198.18.0.1,198.18.0.2"}[name]
		c.within(5*time.Second, "web", hasAddress(want))
	}
	if _, err := c.objects.AddressPools.Create(t.Context(), addressPool("lan", "192.0.2.50"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// One of the Services gets the only address. Those which had addresses of Nodes keep them until they have another.
	c.within(5*time.Second, "web", func(s *corev1.Service) bool {
		if address(s) == "" {
			t.Fatal("the Service was without an address")
		}
		return reasonIs("PoolExhausted")(s) || address(s) == "192.0.2.50"
	})
}

// A Node keeps its address however long its neighbour's agent is off, which alone reports their network beside its own.
func TestCluster_NodeIPBesideANodeThatIsOff(t *testing.T) {
	c := newCluster(t)
	c.node("n2", "198.18.0.2")
	c.node("n3", "203.0.113.3")
	report := func(name, address string) {
		t.Helper()
		_, err := c.objects.NodeAgents.Create(t.Context(), &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		patch := fmt.Sprintf(`{"status": {"announced": 0, "routed": 0, "renewTime": %q, "interfaces": [{"name": "eth0", "addresses": [%q]}]}}`,
			metav1.NowMicro().UTC().Format(metav1.RFC3339Micro), address)
		_, err = c.objects.NodeAgents.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		if err != nil {
			t.Fatal(err)
		}
	}
	report("n1", "198.18.0.1/24")
	report("n2", "198.18.0.2/24")
	report("n3", "203.0.113.3/24")
	c.create("web")
	c.within(5*time.Second, "web", hasAddress("198.18.0.1,198.18.0.2"))
	time.Sleep(300 * time.Millisecond) // the leader has seen them all
	c.ahead.Add(int64(13 * time.Hour))
	report("n1", "198.18.0.1/24")
	report("n3", "203.0.113.3/24")
	time.Sleep(300 * time.Millisecond)
	c.patch("web", `{"metadata":{"labels":{"a":"pass"}}}`)
	time.Sleep(300 * time.Millisecond)
	if got := address(c.within(time.Second, "web", func(*corev1.Service) bool { return true })); got != "198.18.0.1,198.18.0.2" {
		t.Errorf("n2 is off, and the Service has %s", got)
	}
}

// Where somebody else serves the cluster, and nobody has made a pool, nothing is done.
func TestCluster_Elsewhere(t *testing.T) {
	c := newCluster(t)
	c.end()
	c.create("theirs")
	c.patch("theirs", `{"status":{"loadBalancer":{"ingress":[{"ip":"203.0.113.9"}]}}}`, "status")
	c.create("young", onPort(81))
	c.lead()
	s := c.within(time.Second, "young", func(*corev1.Service) bool { return c.leader.caches.unknown() == nil })
	if _, err := c.leader.EnsureLoadBalancer(t.Context(), "", s, nil); err == nil || err.Error() != "implemented by alternate to cloud provider" {
		t.Errorf("EnsureLoadBalancer: %v", err)
	}
	if got := address(c.within(time.Second, "theirs", hasAddress("203.0.113.9"))); got != "203.0.113.9" {
		t.Error(got)
	}
}

// A thousand Services at once: each has an address of its own. That takes 12 s on two cores that have nothing else to do.
func TestCluster_Thousand(t *testing.T) {
	const count = 1000
	c := newCluster(t, addressPool("lan", "10.200.0.0/22"))
	_, err := c.client.NetworkingV1().ServiceCIDRs().Create(t.Context(), &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: "wide"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.64.0.0/16"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err) // the first one has 254 addresses
	}
	began := time.Now()
	var creating sync.WaitGroup
	for first := range 16 {
		creating.Go(func() {
			for i := first; i < count; i += 16 {
				c.create(fmt.Sprintf("s%d", i), func(s *corev1.Service) { s.Spec.AllocateLoadBalancerNodePorts = new(false) })
			}
		})
	}
	creating.Wait()
	created := time.Since(began)
	for {
		owners := map[string]string{}
		services, err := c.client.CoreV1().Services("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range services.Items {
			s := &services.Items[i]
			if a := address(s); a != "" {
				if other := owners[a]; other != "" {
					t.Fatalf("%s and %s have %s", other, s.Name, a)
				}
				owners[a] = s.Name
			}
		}
		if len(owners) == count {
			break
		}
		if time.Since(began) > 15*time.Minute { // with -race, and beside other tests
			t.Fatalf("after a quarter of an hour, %d of %d Services have an address", len(owners), count)
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Logf("%d Services created after %s, published after %s", count, created.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
}

// Who mistypes an annotation is told in the condition, and once by an Event, also where the Service has an address.
func TestCluster_Mistyped(t *testing.T) {
	c := newCluster(t, addressPool("lan", "192.0.2.50"))
	c.create("web", annotated("ccmadm.dev/address-pol", "other"))
	const want = "annotation ccmadm.dev/address-pol is unknown: did you mean ccmadm.dev/address-pool?"
	s := c.within(5*time.Second, "web", reasonIs(allocator.AnnouncedReason))
	if !strings.HasSuffix(allocator.Condition(s).Message, "; "+want) {
		t.Errorf("the condition says %q", allocator.Condition(s).Message)
	}
	c.patch("web", `{"metadata":{"annotations":{"a":"b"}}}`)
	c.patch("web", `{"metadata":{"annotations":{"ccmadm.dev/address-pol":null}}}`)
	c.within(5*time.Second, "web", func(s *corev1.Service) bool {
		return reasonIs(allocator.AnnouncedReason)(s) && allocator.Condition(s).Message == "192.0.2.50 at level L2"
	})
	if told := c.told(); strings.Count(told, "Warning UnknownAnnotation "+want) != 1 {
		t.Errorf("Events: %s", told)
	}
}
