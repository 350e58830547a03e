package unreachable

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
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

// cluster has Nodes n1, n2 ..., of which n1 is on this process's machine, and each has a pod of Service web. Time passes
// in rounds of a second. Kubelets renew their Leases every ten.
type cluster struct {
	*Watcher

	client  *fake.Clientset
	now     time.Time
	answers map[string]Answer // Present, where there is none
	stalled map[string]bool   // kubelets that do not renew their Lease
	asked   int               // rounds
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
	c.Watcher = New(Settings{
		Client: c.client, Nodes: nodes, Recorder: c.events, Now: func() time.Time { return c.now },
		Own: func(address netip.Addr) bool { return nameOf(address) == "n1" },
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
		if err := c.client.Tracker().Update(coordinationv1.SchemeGroupVersion.WithResource("leases"), l, l.Namespace); err != nil {
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

func TestRound_PowerCut(t *testing.T) {
	c := newCluster(t, 3)
	c.pass(t, 2)
	c.dies("n2")
	c.pass(t, 12) // the Lease is looked at from the first second on
	c.expect(t, "")
	c.pass(t, 1)
	c.expect(t, "n2")
	c.pass(t, 60)
	c.expect(t, "n2")
	const want = "it does not answer at 192.0.2.2, nor does its kubelet renew its Lease: 1 pods"
	if len(c.events.Events) != 1 || !strings.Contains(<-c.events.Events, want) {
		t.Errorf("%d events are left, want one, of that Node", len(c.events.Events))
	}
	delete(c.answers, "n2")
	c.pass(t, 1)
	c.dies("n2")
	c.pass(t, 25)
	if len(c.events.Events) != 1 {
		t.Errorf("%d events of the second time, want one", len(c.events.Events))
	}
}

// Several may go at once, as long as a half of the others is there, and one list serves for all.
func TestRound_Several(t *testing.T) {
	c := newCluster(t, 7)
	c.pass(t, 2)
	c.dies("n2", "n3", "n4")
	c.pass(t, 20)
	c.expect(t, "n2 n3 n4")
	lists := 0
	for _, action := range c.client.Actions() {
		if action.Matches("list", "endpointslices") {
			lists++
		}
	}
	if lists != 1 {
		t.Errorf("EndpointSlices were listed %d times, want once", lists)
	}
}

// Each of these alone keeps the endpoints.
func TestRound_Stays(t *testing.T) {
	all := []string{"n1", "n2", "n3", "n4"}
	for name, disturb := range map[string]func(t *testing.T, c *cluster){
		"its kubelet renews its Lease": func(_ *testing.T, c *cluster) { c.answers["n2"] = Silent },
		"most others are silent, too":  func(_ *testing.T, c *cluster) { c.dies("n2", "n3") },
		"most others cannot be asked":  func(_ *testing.T, c *cluster) { c.dies("n2"); c.answers["n3"], c.answers["n4"] = Unknown, Unknown },
		"it cannot be asked":           func(_ *testing.T, c *cluster) { c.dies("n2"); c.answers["n2"] = Unknown },
		"nobody's kubelet renews":      func(_ *testing.T, c *cluster) { c.dies("n2"); stall(c, all...) },
		"most kubelets do not renew":   func(_ *testing.T, c *cluster) { c.dies("n2"); stall(c, "n1", "n3") },
		"the API server says nothing":  func(_ *testing.T, c *cluster) { c.dies("n2"); c.fails("list", "leases", 503) },
		"nor does it now and then":     func(_ *testing.T, c *cluster) { c.dies("n2"); c.failsSometimes() },
		"it has no Lease": func(t *testing.T, c *cluster) {
			c.dies("n2")
			if err := c.client.Tracker().Delete(coordinationv1.SchemeGroupVersion.WithResource("leases"), "kube-node-lease", "n2"); err != nil {
				t.Fatal(err)
			}
		},
		"it answers again and again":                          func(t *testing.T, c *cluster) { c.flaps(t, "n2") },
		"the API server takes long, and meanwhile it answers": func(_ *testing.T, c *cluster) { c.slow("n2") },
		"its kubelet goes on for a while": func(t *testing.T, c *cluster) {
			c.answers["n2"] = Silent
			c.pass(t, 15)
			c.answers["n2"] = Unknown
			c.pass(t, 1)
			c.dies("n2")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 4)
			c.pass(t, 2)
			if strings.HasPrefix(name, "most others are silent") {
				c = newCluster(t, 3)
				c.pass(t, 2)
			}
			disturb(t, c)
			c.pass(t, 45)
			c.expect(t, "")
		})
	}
}

func stall(c *cluster, names ...string) {
	for _, name := range names {
		c.stalled[name] = true
	}
}

// Of two machines neither can tell whether the other is dead.
func TestRound_Two(t *testing.T) {
	c := newCluster(t, 2)
	c.pass(t, 2)
	c.dies("n2")
	c.pass(t, 45)
	c.expect(t, "")
}

// The last endpoint of a Service stays: there is nowhere else to send. It goes when there is.
func TestRound_LastEndpoint(t *testing.T) {
	c := newCluster(t, 4)
	c.add(t, slice("only", "n2"))
	c.pass(t, 2)
	c.dies("n2")
	c.pass(t, 30)
	c.expect(t, "")
	c.add(t, slice("only", "n4"))
	c.pass(t, 6)
	c.expect(t, "n2")
}

// A machine that has not answered this process is none that has fallen silent: a firewall may drop the question.
func TestRound_NeverAnswered(t *testing.T) {
	c := newCluster(t, 3)
	c.dies("n2")
	c.pass(t, 45)
	c.expect(t, "")
}

// What the API server refuses of one pod holds up no other, and is tried again. So do pods that are gone, names that are
// none, and what another namespace says of a pod.
func TestRound_Again(t *testing.T) {
	c := newCluster(t, 4)
	evil := slice("evil", "n2", ref("on-n2", "pod-n2"), ref("a/b", "b"), ref("", "c"), ref("on-n3", ""))
	evil.Namespace = "elsewhere"
	second := podOn("n2")
	second.Name, second.UID = "refused", "refused"
	c.add(t, slice("web2", "n2", ref("gone", "gone"), ref("refused", "refused")), slice("web2", "n4"), second, evil)
	c.client.PrependReactor("patch", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if c.asked < 40 && a.(clienttesting.PatchAction).GetName() == "refused" {
			return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "refused", nil)
		}
		return false, nil, nil
	})
	c.pass(t, 2)
	c.dies("n2")
	c.pass(t, 20)
	c.expect(t, "n2")
	c.pass(t, 30)
	c.expect(t, "n2 n2")
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

// A machine on which nothing listens answers, too.
func TestAsk(t *testing.T) {
	if got := ask(t.Context(), netip.MustParseAddr("127.0.0.1")); got != Present {
		t.Errorf("this machine: %d, want %d", got, Present)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := ask(ctx, netip.MustParseAddr("127.0.0.1")); got != Unknown {
		t.Errorf("this process ends: %d, want %d", got, Unknown)
	}
	if !own(netip.MustParseAddr("127.0.0.1")) || own(netip.MustParseAddr("192.0.2.1")) {
		t.Error("this machine's address is not told from another one")
	}
	for errno, want := range map[syscall.Errno]Answer{
		syscall.ECONNREFUSED: Present, syscall.ECONNRESET: Present, syscall.EHOSTUNREACH: Silent, syscall.ENETUNREACH: Silent,
		syscall.ETIMEDOUT: Silent, syscall.EACCES: Unknown, syscall.EMFILE: Unknown,
	} {
		if got := meaning(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", errno)}); got != want {
			t.Errorf("%v: %d, want %d", errno, got, want)
		}
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
