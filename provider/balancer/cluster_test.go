package balancer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// cluster is a real API server, with a Balancer and a Node whose agent announces what is claimed.
type cluster struct {
	*testing.T
	client  *kubernetes.Clientset
	objects *objects.Client
	events  *record.FakeRecorder
	leader  *Balancer
	silent  bool // agents announce nothing

	stop    context.CancelFunc
	running sync.WaitGroup
}

func newCluster(t *testing.T, pools ...*v1alpha1.AddressPool) *cluster {
	t.Helper()
	config := rest.CopyConfig(plane.Config)
	config.QPS = -1
	if _, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{Paths: []string{"../../manifests/crds"}}); err != nil {
		t.Fatal(err)
	}
	clients, err := objects.New(config)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{
		T: t, client: kubernetes.NewForConfigOrDie(config), objects: clients, events: record.NewFakeRecorder(10000),
	}
	c.clean()
	t.Cleanup(func() { c.end(); c.clean() })
	for _, p := range pools {
		if _, err := clients.AddressPools.Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.node("n1", "198.18.0.1")
	c.lead()
	return c
}

// lead is a leader that begins: it remembers nothing.
func (c *cluster) lead() {
	c.Helper()
	c.end()
	var ctx context.Context
	ctx, c.stop = context.WithCancel(c.Context())
	factory := informers.NewSharedInformerFactory(c.client, 0)
	leader, err := New(Settings{
		Client: c.client, Objects: c.objects, Recorder: c.events, Now: time.Now,
		Nodes: factory.Core().V1().Nodes().Informer(), Services: factory.Core().V1().Services().Informer(),
	})
	if err != nil {
		c.Fatal(err)
	}
	c.leader = leader
	factory.Start(ctx.Done())
	c.running.Go(func() { leader.Run(ctx) })
	c.running.Go(func() { c.announce(ctx) })
}

func (c *cluster) end() {
	if c.stop != nil {
		c.stop()
		c.running.Wait()
	}
}

func (c *cluster) clean() {
	ctx := context.WithoutCancel(c.Context())
	all := metav1.DeleteOptions{}
	services, _ := c.client.CoreV1().Services("default").List(ctx, metav1.ListOptions{})
	for _, s := range services.Items {
		if s.Name == "kubernetes" {
			continue
		}
		_, _ = c.client.CoreV1().Services("default").Patch(ctx, s.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		_ = c.client.CoreV1().Services("default").Delete(ctx, s.Name, all)
	}
	claims, _ := c.client.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{LabelSelector: networkingv1.LabelManagedBy + "!=ipallocator.k8s.io"})
	for _, claim := range claims.Items {
		_ = c.client.NetworkingV1().IPAddresses().Delete(ctx, claim.Name, all)
	}
	for _, pool := range []string{"lan", "other"} {
		_ = c.objects.AddressPools.Delete(ctx, pool, all)
	}
	for _, node := range []string{"n1", "n2"} {
		_ = c.client.CoreV1().Nodes().Delete(ctx, node, all)
		_ = c.objects.NodeAgents.Delete(ctx, node, all)
	}
}

func (c *cluster) node(name, address string) {
	c.Helper()
	nodes := c.client.CoreV1().Nodes()
	node, err := nodes.Create(c.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	if node, err = nodes.UpdateStatus(c.Context(), node, metav1.UpdateOptions{}); err != nil {
		c.Fatal(err)
	}
	node.Spec.Taints = nil // those of the admission plugin
	if _, err = nodes.Update(c.Context(), node, metav1.UpdateOptions{}); err != nil {
		c.Fatal(err)
	}
}

// announce is the agent of n1: it reports all claims that are not released.
func (c *cluster) announce(ctx context.Context) {
	agents, last := c.objects.NodeAgents, ""
	_, _ = agents.Create(ctx, &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{})
	for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		status := v1alpha1.NodeAgentStatus{RenewTime: metav1.NowMicro(), Announcements: []v1alpha1.Announcement{}}
		for _, object := range list[*networkingv1.IPAddress](c.leader.caches.claims) {
			if claim, ok := parseClaim(object); ok && claim.live() && !c.silent {
				status.Announcements = append(status.Announcements, v1alpha1.Announcement{Address: object.Name, Level: claim.level})
			}
		}
		slices.SortFunc(status.Announcements, func(a, b v1alpha1.Announcement) int { return strings.Compare(a.Address, b.Address) })
		said := fmt.Sprint(status.Announcements)
		if said == last {
			continue
		}
		patch, _ := json.Marshal(map[string]any{"status": status})
		if _, err := agents.Patch(ctx, "n1", types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err == nil {
			last = said
		}
	}
}

// create makes a Service of type LoadBalancer.
func (c *cluster) create(name string, changes ...func(*corev1.Service)) *corev1.Service {
	c.Helper()
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": name},
			Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
	for _, change := range changes {
		change(s)
	}
	s, err := c.client.CoreV1().Services("default").Create(c.Context(), s, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return s
}

func (c *cluster) patch(name, patch string, subresource ...string) {
	c.Helper()
	_, err := c.client.CoreV1().Services("default").Patch(c.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresource...)
	if err != nil {
		c.Fatal(err)
	}
}

// within waits until the Service is as wanted, and returns it.
func (c *cluster) within(d time.Duration, name string, wanted func(*corev1.Service) bool) *corev1.Service {
	c.Helper()
	var s *corev1.Service
	for deadline := time.Now().Add(d); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		var err error
		if s, err = c.client.CoreV1().Services("default").Get(c.Context(), name, metav1.GetOptions{}); err != nil {
			c.Fatal(err)
		}
		if wanted(s) {
			return s
		}
	}
	c.Fatalf("after %s: annotations %v, status %+v", d, s.Annotations, s.Status)
	return nil
}

func address(s *corev1.Service) string { return join(earlier(s, true)) }

func hasAddress(want string) func(*corev1.Service) bool {
	return func(s *corev1.Service) bool { return address(s) == want }
}

func reasonIs(want string) func(*corev1.Service) bool {
	return func(s *corev1.Service) bool { return condition(s) != nil && condition(s).Reason == want }
}

func (c *cluster) claimed(name string) *claim {
	c.Helper()
	object, err := c.client.NetworkingV1().IPAddresses().Get(c.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		c.Fatal(err)
	}
	parsed, _ := parseClaim(object)
	return parsed
}

// The life of an address, against a real API server.
func TestCluster_Addresses(t *testing.T) {
	c := newCluster(t, addressPool("lan", "192.0.2.50-192.0.2.51"))
	c.create("web")
	s := c.within(5*time.Second, "web", reasonIs(announcedReason))
	first := address(s)
	if first == "" || s.Annotations[v1alpha1.AllocatedAnnotation] != first || c.claimed(first).probed.IsZero() {
		t.Fatalf("got status %+v, annotations %v", s.Status, s.Annotations)
	}
	began := time.Now()
	c.patch("web", `{"status":{"loadBalancer":null}}`, "status")
	c.within(time.Second, "web", hasAddress(first))
	t.Logf("a cleared status is repaired after %s", time.Since(began).Round(time.Millisecond))

	c.lead() // another leader
	c.create("second")
	second := address(c.within(5*time.Second, "second", reasonIs(announcedReason)))
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
	for c.claimed(first).released.IsZero() {
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
	c.within(5*time.Second, "web", reasonIs(outOfPoolReason))
	pool, err := c.objects.AddressPools.Get(t.Context(), "lan", metav1.GetOptions{})
	if err != nil || pool.Status.Assigned != 1 || pool.Status.Available != "0" {
		t.Errorf("pool: %+v, %v", pool.Status, err)
	}
}

// told returns the Events so far.
func (c *cluster) told() string {
	var b strings.Builder
	for {
		select {
		case e := <-c.events.Events:
			fmt.Fprintln(&b, e)
		default:
			return b.String()
		}
	}
}

// Nothing is published before an agent announces it, and its silence is said.
func TestCluster_NotAnnounced(t *testing.T) {
	c := newCluster(t)
	c.end()
	c.silent = true
	c.lead()
	pool := addressPool("lan", "192.0.2.50")
	if _, err := c.objects.AddressPools.Create(t.Context(), pool, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.create("web", annotated(v1alpha1.PoolAnnotation, "lan"))
	s := c.within(6*time.Second, "web", reasonIs("NotAnnounced"))
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
	s := c.within(5*time.Second, "ours", reasonIs(announcedReason))
	if len(s.Finalizers) != 1 || address(s) == "" {
		t.Errorf("finalizers %v, status %+v", s.Finalizers, s.Status)
	}
	if _, exists, err := c.leader.GetLoadBalancer(t.Context(), "", s); !exists || err != nil {
		t.Errorf("GetLoadBalancer: %t, %v", exists, err)
	}
	if err := c.leader.EnsureLoadBalancerDeleted(t.Context(), "", &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "never", Namespace: "default"}}); err != nil {
		t.Error(err)
	}
	c.within(time.Second, "theirs", func(s *corev1.Service) bool { return address(s) == "" && condition(s) == nil })
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
	c.within(5*time.Second, "local", reasonIs("NoEligibleNode"))
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

// A thousand Services at once: each has an address of its own, soon.
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
		if time.Since(began) > 2*time.Minute {
			t.Fatalf("after two minutes, %d of %d Services have an address", len(owners), count)
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Logf("%d Services created after %s, published after %s", count, created.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
}
