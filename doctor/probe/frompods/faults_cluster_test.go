package frompods

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/probe"
)

// between is a way to the API server on which something goes wrong.
type between func(next http.RoundTripper, r *http.Request) (*http.Response, error)

func (f between) client(t testing.TB, config *rest.Config) kubernetes.Interface {
	t.Helper()
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) { return f(next, r) })
	})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestCluster_LostRenewal: a renewal whose answer is lost does not keep the next ones from being made, else the next run would take
// this one for dead.
func TestCluster_LostRenewal(t *testing.T) {
	r := newRun(options(t))
	if err := r.hold(t.Context()); err != nil {
		t.Fatal(err)
	}
	var count atomic.Int32
	r.Client = between(func(next http.RoundTripper, q *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(q)
		if q.Method == http.MethodPut && count.Add(1) == 1 && err == nil {
			_ = answer.Body.Close()
			return nil, errors.New("the answer is lost")
		}
		return answer, err
	}).client(t, plane.Config)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go r.renew(ctx, done, func(err error) { t.Errorf("lost: %v", err) })
	time.Sleep(2*beat + beat/2)
	first, err := plane.Admin(t).CoordinationV1().Leases(v1alpha1.Namespace).Get(t.Context(), v1alpha1.ProbeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for began, second := time.Now(), first; first.ResourceVersion == second.ResourceVersion; time.Sleep(beat / 10) {
		if time.Since(began) > time.Minute {
			t.Fatal("the Lease is not renewed any more")
		}
		second, err = plane.Admin(t).CoordinationV1().Leases(v1alpha1.Namespace).Get(t.Context(), v1alpha1.ProbeName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	stop()
	<-done
	if err := r.release(t.Context()); err != nil {
		t.Error(err)
	}
	expectNothing(t)
}

// TestCluster_Taken: a run that another one took for dead ends, and deletes its own pods, neither the other's nor its Lease.
func TestCluster_Taken(t *testing.T) {
	addNodes(t, "a")
	other := newRun(options(t))
	theirs, err := other.newPod("a", probe.Machine, &probe.Task{})
	if err != nil {
		t.Fatal(err)
	}
	pods, leases := plane.Admin(t).CoreV1().Pods(v1alpha1.Namespace), plane.Admin(t).CoordinationV1().Leases(v1alpha1.Namespace)
	var taken atomic.Bool
	k := &kubelets{says: func(*corev1.Pod, *probe.Task) *corev1.PodStatus {
		if !taken.CompareAndSwap(false, true) {
			return nil
		}
		for { // over renewals of the run
			found, err := leases.Get(t.Context(), v1alpha1.ProbeName, metav1.GetOptions{})
			if err != nil {
				t.Error(err)
				return nil
			}
			found.Labels, found.Spec = other.newLease().Labels, other.newLease().Spec
			if other.lease, err = leases.Update(t.Context(), found, metav1.UpdateOptions{}); err == nil {
				break
			}
		}
		if _, err := pods.Create(t.Context(), theirs, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
		return nil
	}}
	k.work(t.Context(), t)
	f, err := Run(t.Context(), options(t))
	if f != nil || !errors.Is(err, errTaken) {
		t.Errorf("got %+v, %v", f, err)
	}
	list, err := pods.List(t.Context(), metav1.ListOptions{LabelSelector: v1alpha1.ProbeLabel})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != theirs.Name {
		t.Errorf("there are %d pods: %v", len(list.Items), err)
	}
	if found, err := leases.Get(t.Context(), v1alpha1.ProbeName, metav1.GetOptions{}); err != nil || !other.holds(found) {
		t.Errorf("the other's Lease: %+v, %v", found, err)
	}
	if err := errors.Join(other.removePods(t.Context(), true), other.release(t.Context())); err != nil {
		t.Error(err)
	}
	expectNothing(t)
}

// TestCluster_Denied: a user who could not delete pods makes none.
func TestCluster_Denied(t *testing.T) {
	addNodes(t, "a")
	user, err := plane.User("probe-denied")
	if err != nil {
		t.Fatal(err)
	}
	o := options(t)
	if o.Client, err = kubernetes.NewForConfig(user); err != nil {
		t.Fatal(err)
	}
	var found *finding.Error
	f, err := Run(t.Context(), o)
	if f != nil || !errors.As(err, &found) || !strings.Contains(err.Error(), "delete pods") || found.Hint == "" {
		t.Errorf("got %+v, %v", f, err)
	}
	expectNothing(t)
}

// TestCluster_OverloadedAtTheEnd: an API server that answers 429 and 503 while a stopped run deletes is asked again.
func TestCluster_OverloadedAtTheEnd(t *testing.T) {
	addNodes(t, "a")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	k := &kubelets{says: func(*corev1.Pod, *probe.Task) *corev1.PodStatus { stop(); return nil }}
	k.work(t.Context(), t)
	var count atomic.Int32
	o := options(t)
	o.Client = between(func(next http.RoundTripper, q *http.Request) (*http.Response, error) {
		if ctx.Err() == nil || count.Load() > 11 {
			return next.RoundTrip(q)
		}
		code := []int{http.StatusTooManyRequests, http.StatusServiceUnavailable}[count.Add(1)%2]
		return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader("no")), Header: http.Header{}, Request: q}, nil
	}).client(t, plane.Config)
	if f, err := Run(ctx, o); f != nil || !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "delete what") {
		t.Errorf("got %+v, %v", f, err)
	}
	if count.Load() < 10 {
		t.Errorf("%d requests were refused", count.Load())
	}
	expectNothing(t)
}

// TestCluster_Odd: a Node name of 253 characters, one that runs Windows, one whose pods a webhook gives a container that goes on, one
// whose kubelet says much; and addresses that are none.
func TestCluster_Odd(t *testing.T) {
	long := strings.Repeat("node.", 50) + "abc"
	addNodes(t, long, "windows", "sidecar", "talks=False", "unreported=none")
	client := plane.Admin(t)
	for name, change := range map[string]func(*corev1.Node){
		"windows": func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelOSStable: "windows"} },
		"talks": func(n *corev1.Node) {
			n.Status.Conditions[0].Message = "PLEG is not healthy\x1b[31m" + strings.Repeat("!", 5000)
		},
		"unreported": func(n *corev1.Node) { n.Status.Conditions = nil },
	} {
		n, err := client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		change(n)
		if n, err = client.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		change(n)
		if _, err = client.CoreV1().Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	k := &kubelets{says: func(pod *corev1.Pod, task *probe.Task) *corev1.PodStatus {
		status := answers(task, "")
		if pod.Spec.NodeName == "sidecar" {
			status.Phase = corev1.PodRunning
		}
		return status
	}}
	k.work(t.Context(), t)
	f, err := Run(t.Context(), options(t))
	if err != nil || len(f.Findings()) > 0 {
		t.Fatalf("got %+v, %v", f, err)
	}
	text := strings.Join(f.Lines(), "\n")
	for _, want := range []string{
		"asked from 4 Nodes", "1 Node without Linux, where the pods do not run: windows (windows)",
		"a pod of Node/talks: it cannot be asked: the Node is not Ready: PLEG is not healthy!",
		"a pod of Node/unreported: it cannot be asked: its kubelet has not",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	asked := slices.ContainsFunc(f.Sources, func(s probe.Source) bool { return s.Node == long && s.Unasked == "" })
	if len(text) > 2500 || strings.Contains(text, "\x1b") || !asked {
		t.Errorf("got %d bytes:\n%s", len(text), text)
	}
	expectNothing(t)
}

// TestCluster_Plan: the endpoint's name is asked for from machines alone; a domain that is not known makes no finding of DNS; a load
// balancer without an address is not this machine.
func TestCluster_Plan(t *testing.T) {
	client := plane.Admin(t)
	system := client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	dns := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "kube-dns"}}
	dns.Spec.Ports = []corev1.ServicePort{{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}}
	if _, err := client.CoreV1().Services(metav1.NamespaceSystem).Create(t.Context(), dns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.CoreV1().Services(metav1.NamespaceSystem).Delete(context.WithoutCancel(t.Context()), "kube-dns", metav1.DeleteOptions{})
	})
	lenient := func(p *plan) bool {
		return slices.ContainsFunc(p.common, func(t probe.Target) bool { return t.Subject == probe.DNSUDP && t.AnyAnswer })
	}
	r := newRun(options(t))
	p, err := r.makePlan(t.Context())
	if err != nil || !lenient(p) {
		t.Errorf("without kubeadm's configuration: %+v, %v", p, err)
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kubeadm-config"}, Data: map[string]string{
		"ClusterConfiguration": "controlPlaneEndpoint: api.example\nnetworking: {dnsDomain: corp.example}\n",
	}}
	if _, err := system.Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = system.Delete(context.WithoutCancel(t.Context()), cm.Name, metav1.DeleteOptions{}) })
	corp := func(t probe.Target) bool { return t.Name == "kubernetes.default.svc.corp.example." }
	p, err = r.makePlan(t.Context())
	if err != nil || lenient(p) || !slices.ContainsFunc(p.common, corp) {
		t.Errorf("with kubeadm's configuration: %+v, %v", p, err)
	}
	p.nodes = []corev1.Node{{}}
	endpoint := func(t probe.Target) bool { return t.Subject == probe.Endpoint && t.Address == "api.example:6443" }
	if !slices.ContainsFunc(p.of(0, probe.Machine), endpoint) || slices.ContainsFunc(p.of(0, probe.Pod), endpoint) {
		t.Errorf("the machine is to ask %+v, and the pod %+v", p.of(0, probe.Machine), p.of(0, probe.Pod))
	}
	empty := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}}
	empty.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{}}
	if address, why := balancerAddress(empty); address != "" || why == "" {
		t.Errorf("a status without an address: %q, %q", address, why)
	}
}
