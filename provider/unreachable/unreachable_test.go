package unreachable

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

// cluster has Nodes n1, n2 ..., of which each has a pod that serves. Time passes in rounds of a second.
type cluster struct {
	*Watcher

	client  *fake.Clientset
	now     time.Time
	answers map[string]Answer // Present, where there is none
	renews  map[string]bool   // still, though the machine is silent
	asked   int               // rounds
	events  *record.FakeRecorder
}

func newCluster(t *testing.T, count int) *cluster {
	t.Helper()
	c := &cluster{
		client: fake.NewClientset(), now: time.Unix(1000, 0), answers: map[string]Answer{}, renews: map[string]bool{},
		events: record.NewFakeRecorder(100),
	}
	nodes := informers.NewSharedInformerFactory(c.client, 0).Core().V1().Nodes().Informer()
	for i := 1; i <= count; i++ {
		name := fmt.Sprintf("n%d", i)
		if err := nodes.GetStore().Add(node(name)); err != nil {
			t.Fatal(err)
		}
		c.add(t, lease(name, "1"), slice(name), pod1(name))
	}
	c.Watcher = New(Settings{
		Client: c.client, Nodes: nodes, Recorder: c.events, Now: func() time.Time { return c.now },
		Ask: func(_ context.Context, address netip.Addr) Answer {
			if a, ok := c.answers[fmt.Sprintf("n%d", address.As4()[3])]; ok {
				return a
			}
			return Present
		},
	})
	return c
}

func (c *cluster) add(t *testing.T, objects ...runtime.Object) {
	t.Helper()
	for _, o := range objects {
		if err := c.client.Tracker().Add(o); err != nil {
			t.Fatal(err)
		}
	}
}

func node(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeHostName, Address: name},
				{Type: corev1.NodeInternalIP, Address: "192.0.2." + strings.TrimPrefix(name, "n")},
			},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

func lease(name, version string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name, ResourceVersion: version},
		Spec:       coordinationv1.LeaseSpec{LeaseDurationSeconds: new(int32(40))},
	}
}

func pod1(node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "on-" + node, UID: types.UID("pod-" + node)},
		Spec:       corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue},
			{Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
		}},
	}
}

// slice has the pod of a Node, one that is not ready, and one whose slice names no pod.
func slice(node string) *discoveryv1.EndpointSlice {
	ref := func(name string) *corev1.ObjectReference {
		return &corev1.ObjectReference{Kind: "Pod", Namespace: "elsewhere", Name: name, UID: types.UID("pod-" + node)}
	}
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-" + node},
		Endpoints: []discoveryv1.Endpoint{
			{NodeName: &node, TargetRef: ref("on-" + node)},
			{NodeName: &node, TargetRef: ref("not-ready"), Conditions: discoveryv1.EndpointConditions{Ready: new(false)}},
			{NodeName: &node},
		},
	}
}

// pass lets seconds go by.
func (c *cluster) pass(t *testing.T, seconds int) {
	t.Helper()
	for range seconds {
		c.now = c.now.Add(time.Second)
		c.asked++
		for name := range c.renews {
			c.renew(t, name)
		}
		c.round(t.Context())
	}
}

// renew is what a kubelet does every ten seconds.
func (c *cluster) renew(t *testing.T, name string) {
	t.Helper()
	if c.asked%10 != 0 {
		return
	}
	l := lease(name, fmt.Sprint(c.asked+100))
	if err := c.client.Tracker().Update(coordinationv1.SchemeGroupVersion.WithResource("leases"), l, l.Namespace); err != nil {
		t.Fatal(err)
	}
}

// withdrawn are the Nodes whose pod is not Ready.
func (c *cluster) withdrawn(t *testing.T) string {
	t.Helper()
	pods, err := c.client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for _, p := range pods.Items {
		for _, condition := range p.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionFalse {
				nodes = append(nodes, p.Spec.NodeName)
			}
		}
		if len(p.Status.Conditions) != 2 {
			t.Errorf("%s has conditions %v", p.Name, p.Status.Conditions)
		}
	}
	return strings.Join(nodes, " ")
}

func (c *cluster) expect(t *testing.T, want string) {
	t.Helper()
	if got := c.withdrawn(t); got != want {
		t.Errorf("after %d s: pods of %q are not Ready, want those of %q", c.asked, got, want)
	}
}

func TestRound_PowerCut(t *testing.T) {
	c := newCluster(t, 3)
	c.pass(t, 2)
	c.answers["n2"] = Silent
	c.pass(t, 12) // the Lease is looked at from the first second on
	c.expect(t, "")
	c.pass(t, 1)
	c.expect(t, "n2")
	c.pass(t, 60)
	c.expect(t, "n2")
	if len(c.events.Events) != 1 || !strings.Contains(<-c.events.Events, "it does not answer at 192.0.2.2, nor does its kubelet renew its Lease: 1 pods") {
		t.Errorf("%d events are left, want one, of that Node", len(c.events.Events))
	}
	delete(c.answers, "n2")
	c.pass(t, 1)
	c.answers["n2"] = Silent
	c.pass(t, 14)
	if len(c.events.Events) != 1 {
		t.Errorf("%d events of the second time, want one", len(c.events.Events))
	}
}

// Each of these alone keeps the endpoints.
func TestRound_Stays(t *testing.T) {
	for name, disturb := range map[string]func(t *testing.T, c *cluster){
		"its kubelet renews its Lease": func(_ *testing.T, c *cluster) { c.answers["n2"], c.renews["n2"] = Silent, true },
		"most others are silent, too":  func(_ *testing.T, c *cluster) { c.answers["n2"], c.answers["n3"] = Silent, Silent },
		"most others cannot be asked": func(_ *testing.T, c *cluster) {
			c.answers["n2"], c.answers["n1"], c.answers["n3"] = Silent, Unknown, Unknown
		},
		"it cannot be asked":             func(_ *testing.T, c *cluster) { c.answers["n2"] = Unknown },
		"the API server does not answer": func(_ *testing.T, c *cluster) { c.answers["n2"] = Silent; c.fails("get", "leases", 503) },
		"nor does it now and then":       func(_ *testing.T, c *cluster) { c.answers["n2"] = Silent; c.failsSometimes() },
		"it has no Lease":                func(_ *testing.T, c *cluster) { c.answers["n2"] = Silent; c.fails("get", "leases", 404) },
		"it answers again and again":     func(t *testing.T, c *cluster) { c.flaps(t, "n2") },
		"its kubelet goes on for a while": func(t *testing.T, c *cluster) {
			c.answers["n2"], c.renews["n2"] = Silent, true
			c.pass(t, 15)
			delete(c.renews, "n2")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 3)
			c.pass(t, 2)
			disturb(t, c)
			c.pass(t, 45)
			c.expect(t, "")
		})
	}
}

// A machine that has not answered this process is none that has fallen silent: a firewall may drop the question.
func TestRound_NeverAnswered(t *testing.T) {
	c := newCluster(t, 3)
	c.answers["n2"] = Silent
	c.pass(t, 45)
	c.expect(t, "")
}

// What the API server refuses is tried again, and pods that are gone or were made again hold up no other.
func TestRound_Again(t *testing.T) {
	c := newCluster(t, 3)
	c.add(t, slice2("n2"))
	c.pass(t, 2)
	c.answers["n2"] = Silent
	c.fails("patch", "pods", 429)
	c.pass(t, 20)
	c.expect(t, "")
	c.client.ReactionChain = c.client.ReactionChain[1:]
	c.pass(t, 1)
	c.expect(t, "n2")
}

// slice2 names a pod that is gone.
func slice2(node string) *discoveryv1.EndpointSlice {
	s := slice(node)
	s.Name = "gone"
	s.Endpoints = []discoveryv1.Endpoint{{NodeName: &node, TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "gone", UID: "gone"}}}
	return s
}

func (c *cluster) fails(verb, resource string, code int) {
	c.client.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewGenericServerResponse(code, verb, corev1.Resource(resource), "", "", 1, false)
	})
}

// failsSometimes has every tenth question about a Lease fail.
func (c *cluster) failsSometimes() {
	c.client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		if c.asked%10 == 0 {
			return true, nil, apierrors.NewServiceUnavailable("etcd has no leader")
		}
		return false, nil, nil
	})
}

func (c *cluster) flaps(t *testing.T, name string) {
	t.Helper()
	for range 5 {
		c.answers[name] = Silent
		c.pass(t, 9)
		delete(c.answers, name)
		c.pass(t, 1)
	}
}

// What a kubelet writes as its address is an address, or nobody is asked.
func TestAddressOf(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::1", "::ffff:192.0.2.1": "192.0.2.1", "fe80::1%eth0": "fe80::1",
		"example.com": "invalid IP", "": "invalid IP",
	} {
		n := node("n1")
		n.Status.Addresses[1].Address = text
		if got := addressOf(n).String(); got != want {
			t.Errorf("%q: %s is asked, want %s", text, got, want)
		}
	}
}

// A machine on which nothing listens answers, too, and one without a way to it is not silent.
func TestAsk(t *testing.T) {
	if got := ask(t.Context(), netip.MustParseAddr("127.0.0.1")); got != Present {
		t.Errorf("this machine: %d, want %d", got, Present)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := ask(ctx, netip.MustParseAddr("127.0.0.1")); got != Unknown {
		t.Errorf("this process ends: %d, want %d", got, Unknown)
	}
}

// Run ends with its context, whether or not the informer has ever synced.
func TestRun_Ends(t *testing.T) {
	c := newCluster(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	c.Nodes = cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Node{}, 0, nil)
	cancel()
	c.Run(ctx)
}
