package balancer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
	"github.com/ccmadm/ccmadm/manifests/manifeststest"
	"github.com/ccmadm/ccmadm/provider/agents"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// cluster is a real API server, with a Balancer and a Node whose agent announces what is claimed.
type cluster struct {
	*testing.T
	client  *kubernetes.Clientset
	objects *objects.Client
	events  *record.FakeRecorder
	leader  *Balancer
	silent  atomic.Bool  // agents announce nothing
	apart   atomic.Bool  // agents have announcements in an object of their own
	ahead   atomic.Int64 // nanoseconds that the leader's clock is

	stop    context.CancelFunc
	running sync.WaitGroup
}

func newCluster(t *testing.T, pools ...*v1alpha1.AddressPool) *cluster {
	t.Helper()
	config := rest.CopyConfig(plane.Config)
	config.QPS = -1
	definitions := envtest.CRDInstallOptions{Paths: []string{"../../manifests/crds"}, MaxTime: time.Minute}
	if _, err := envtest.InstallCRDs(config, definitions); err != nil {
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
	reader, err := agents.New(c.client, c.objects, "test")
	if err != nil {
		c.Fatal(err)
	}
	leader, err := New(Settings{
		Client: c.client, Objects: c.objects, Recorder: c.events, Agents: reader,
		Now:   func() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) },
		Nodes: factory.Core().V1().Nodes().Informer(), Services: factory.Core().V1().Services().Informer(),
	})
	if err != nil {
		c.Fatal(err)
	}
	c.leader = leader
	// Tests write its status from the beginning.
	_, _ = c.objects.NodeAgents.Create(ctx, &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{})
	factory.Start(ctx.Done())
	c.running.Go(func() { reader.Run(ctx) })
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
	for _, node := range []string{"n1", "n2", "n3"} {
		_ = c.client.CoreV1().Nodes().Delete(ctx, node, all)
		_ = c.objects.NodeAgents.Delete(ctx, node, all)
		_ = c.objects.NodeAnnouncements.Delete(ctx, node, all)
	}
}

func (c *cluster) node(name, address string) {
	c.Helper()
	manifeststest.Node(c, c.client, name, address)
}

// announce is the agent of n1: it reports all claims that are not released.
func (c *cluster) announce(ctx context.Context) {
	reports, last := c.objects.NodeAgents, ""
	for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		announcements := []v1alpha1.Announcement{}
		for _, object := range objects.List[*networkingv1.IPAddress](c.leader.caches.claims.GetStore()) {
			if claim, ok := allocator.ParseClaim(object); ok && claim.Live() && !c.silent.Load() {
				announcements = append(announcements, v1alpha1.Announcement{Address: object.Name, Level: claim.Level})
			}
		}
		slices.SortFunc(announcements, func(a, b v1alpha1.Announcement) int { return strings.Compare(a.Address, b.Address) })
		said := fmt.Sprint(announcements)
		if said == last {
			continue
		}
		status := map[string]any{
			"renewTime": metav1.NowMicro(), "announced": 0, "routed": 0, "announcements": announcements, "announcementsApart": c.apart.Load(),
		}
		if c.apart.Load() {
			status["announcements"] = nil
			c.announceApart(ctx, announcements)
		}
		patch, _ := json.Marshal(map[string]any{"status": status})
		if _, err := reports.Patch(ctx, "n1", types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err == nil {
			last = said
		}
	}
}

// announceApart is what an agent writes while a manager watches.
func (c *cluster) announceApart(ctx context.Context, announcements []v1alpha1.Announcement) {
	apart := c.objects.NodeAnnouncements
	_, _ = apart.Create(ctx, &v1alpha1.NodeAnnouncements{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{})
	patch, _ := json.Marshal(map[string]any{"announced": len(announcements), "announcements": announcements})
	if _, err := apart.Patch(ctx, "n1", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil && ctx.Err() == nil {
		c.Errorf("announce: %v", err)
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

// within waits until the Service is as wanted, and returns it. A busy machine has a minute, however soon another one is through.
func (c *cluster) within(d time.Duration, name string, wanted func(*corev1.Service) bool) *corev1.Service {
	c.Helper()
	return c.before(max(d, time.Minute), name, wanted)
}

// before is the same where something else would have it so later.
func (c *cluster) before(d time.Duration, name string, wanted func(*corev1.Service) bool) *corev1.Service {
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

func address(s *corev1.Service) string { return evaluation.Join(allocator.Earlier(s, true)) }

func hasAddress(want string) func(*corev1.Service) bool {
	return func(s *corev1.Service) bool { return address(s) == want }
}

func reasonIs(want string) func(*corev1.Service) bool {
	return func(s *corev1.Service) bool {
		return allocator.Condition(s) != nil && allocator.Condition(s).Reason == want
	}
}

func (c *cluster) claimed(name string) *allocator.Claim {
	c.Helper()
	object, err := c.client.NetworkingV1().IPAddresses().Get(c.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		c.Fatal(err)
	}
	parsed, _ := allocator.ParseClaim(object)
	return parsed
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
