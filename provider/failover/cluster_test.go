package failover

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
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
	"k8s.io/client-go/tools/record"
)

var leasesKind = coordinationv1.SchemeGroupVersion.WithResource("leases")

// cluster has Nodes n1, n2 ..., of which n1 is on this process's machine, and each has a pod of Service web. Time
// passes in rounds of a second. Kubelets renew their Leases every ten.
type cluster struct {
	*NodeProber

	client  *fake.Clientset
	now     time.Time
	answers map[string]Answer // Present, where there is none
	stalled map[string]bool   // kubelets that do not renew their Lease
	asked   int               // rounds
	slices  []*discoveryv1.EndpointSlice
	events  *record.FakeRecorder
}

func newCluster(t *testing.T, count int) *cluster {
	t.Helper()
	c := &cluster{
		client: fake.NewClientset(), now: time.Unix(1000, 0), answers: map[string]Answer{}, stalled: map[string]bool{},
		events: record.NewFakeRecorder(100),
	}
	nodes := informers.NewSharedInformerFactory(c.client, 0).Core().V1().Nodes().Informer()
	for i := 1; i <= count; i++ {
		name := fmt.Sprintf("n%d", i)
		if err := nodes.GetStore().Add(node(name)); err != nil {
			t.Fatal(err)
		}
		c.add(t, lease(name, "1"), slice("web", name), podOn(name))
	}
	nameOf := func(address netip.Addr) string { return fmt.Sprintf("n%d", address.As4()[3]) }
	c.NodeProber = New(Settings{
		Client: c.client, Nodes: nodes, Recorder: c.events, Now: func() time.Time { return c.now },
		Slices: func() ([]*discoveryv1.EndpointSlice, bool) { return c.slices, true },
		Own:    func() map[netip.Addr]bool { return map[netip.Addr]bool{netip.MustParseAddr("192.0.2.1"): true} },
		Ask: func(_ context.Context, address netip.Addr) Answer {
			if a, ok := c.answers[nameOf(address)]; ok {
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
		if s, is := o.(*discoveryv1.EndpointSlice); is {
			c.slices = append(c.slices, s)
			continue
		}
		if err := c.client.Tracker().Add(o); err != nil {
			t.Fatal(err)
		}
	}
}

// dies takes the power from machines.
func (c *cluster) dies(names ...string) {
	for _, name := range names {
		c.answers[name], c.stalled[name] = Silent, true
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

func podOn(node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "on-" + node, UID: types.UID("pod-" + node)},
		Spec:       corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue},
			{Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
		}},
	}
}

// slice is that of a Service on a Node: its pod, one that is not ready, and what is no pod.
func slice(service, node string, more ...*corev1.ObjectReference) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: service + "-" + node, Labels: map[string]string{discoveryv1.LabelServiceName: service},
	}}
	for _, ref := range append(more, ref("on-"+node, "pod-"+node), nil) {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{NodeName: &node, TargetRef: ref})
	}
	s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
		NodeName: &node, TargetRef: ref("not-ready", "x"), Conditions: discoveryv1.EndpointConditions{Ready: new(false)},
	})
	return s
}

func ref(name, uid string) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Pod", Namespace: "elsewhere", Name: name, UID: types.UID(uid)}
}

// pass lets seconds go by.
func (c *cluster) pass(t *testing.T, seconds int) {
	t.Helper()
	for range seconds {
		c.now = c.now.Add(time.Second)
		c.asked++
		if c.asked%10 == 0 {
			c.renew(t)
		}
		c.round(t.Context())
	}
}

// renew is what kubelets do.
func (c *cluster) renew(t *testing.T) {
	t.Helper()
	for _, name := range c.Nodes.GetStore().ListKeys() {
		l := lease(name, fmt.Sprint(c.asked+100))
		if c.stalled[name] {
			continue
		}
		if err := c.client.Tracker().Update(leasesKind, l, l.Namespace); err != nil {
			t.Fatal(err)
		}
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
	slices.Sort(nodes)
	return strings.Join(nodes, " ")
}

func (c *cluster) expect(t *testing.T, want string) {
	t.Helper()
	if got := c.withdrawn(t); got != want {
		t.Errorf("after %d s: pods of %q are not Ready, want those of %q", c.asked, got, want)
	}
}

func (c *cluster) fails(verb, resource string, code int) {
	c.client.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewGenericServerResponse(code, verb, corev1.Resource(resource), "", "", 1, false)
	})
}

// failsSometimes has every tenth question about Leases fail.
func (c *cluster) failsSometimes() {
	c.client.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		if c.asked%10 == 5 {
			return true, nil, apierrors.NewServiceUnavailable("etcd has no leader")
		}
		return false, nil, nil
	})
}

// slow has the fourth question about Leases take nine seconds, in which the machine is back, its kubelet is not.
func (c *cluster) slow(name string) {
	c.dies(name)
	questions := 0
	c.client.PrependReactor("list", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		if questions++; questions == 4 {
			c.now = c.now.Add(9 * time.Second)
			delete(c.answers, name)
		}
		return false, nil, nil
	})
}

func (c *cluster) flaps(t *testing.T, name string) {
	t.Helper()
	for range 5 {
		c.dies(name)
		c.pass(t, 9)
		delete(c.answers, name)
		c.pass(t, 1)
	}
}
