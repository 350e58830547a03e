package frompods

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/probe"
	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

var plane *manifeststest.ControlPlane

func TestMain(m *testing.M) { os.Exit(manifeststest.Main(m, &plane)) }

// kubelets plays those of all Nodes: says is how a pod has ended, nil while it runs. It counts how many Nodes had pods at once.
type kubelets struct {
	client kubernetes.Interface
	says   func(pod *corev1.Pod, task *probe.Task) *corev1.PodStatus

	mu   sync.Mutex
	most int
	pods []*corev1.Pod
}

// ended is a pod that has left a message.
func ended(code int32, message string) *corev1.PodStatus {
	s := &corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{{
		Name: container, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message}},
	}}}
	if code != 0 {
		s.Phase = corev1.PodFailed
	}
	return s
}

// answers says that all targets answer but those of a subject.
func answers(task *probe.Task, but probe.Subject) *corev1.PodStatus {
	a := probe.Answer{Version: 1, Asked: len(task.Targets), Forwarding: "1", Link: "eth0", MTU: 1500}
	for i, t := range task.Targets {
		if t.Subject == but {
			a.Failed = append(a.Failed, probe.Failure{Target: i, Kind: probe.Dropped, Error: "i/o timeout"})
		}
	}
	data, err := a.Encode()
	if err != nil {
		return ended(1, err.Error())
	}
	return ended(0, string(data))
}

func (k *kubelets) work(ctx context.Context, t testing.TB) {
	k.client = plane.Admin(t)
	done := make(chan struct{})
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			k.look(ctx)
			time.Sleep(50 * time.Millisecond)
		}
	}()
	t.Cleanup(func() { stop(); <-done })
}

func (k *kubelets) look(ctx context.Context) {
	list, err := k.client.CoreV1().Pods(v1alpha1.Namespace).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.ProbeLabel})
	if err != nil {
		return
	}
	nodes := map[string]bool{}
	for i := range list.Items {
		p := &list.Items[i]
		nodes[p.Spec.NodeName] = true
		k.mu.Lock()
		if !slices.ContainsFunc(k.pods, func(known *corev1.Pod) bool { return known.UID == p.UID }) {
			k.pods = append(k.pods, p)
		}
		k.mu.Unlock()
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		var task probe.Task
		if at := slices.Index(p.Spec.Containers[0].Args, "--task"); at >= 0 && json.Unmarshal([]byte(p.Spec.Containers[0].Args[at+1]), &task) != nil {
			continue
		}
		if status := k.says(p, &task); status != nil {
			next := p.DeepCopy()
			next.Status = *status
			_, _ = k.client.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, next, metav1.UpdateOptions{}) // it may be gone
		}
	}
	k.mu.Lock()
	k.most = max(k.most, len(nodes))
	k.mu.Unlock()
}

// addNodes adds Nodes that are Ready, as name or name=STATUS of that condition.
func addNodes(t testing.TB, names ...string) {
	t.Helper()
	nodes := plane.Admin(t).CoreV1().Nodes()
	for i, name := range names {
		name, ready, _ := strings.Cut(name, "=")
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2." + string(rune('1'+i))}}
		if ready == "" {
			ready = "True"
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionStatus(ready)}}
		if _, err := nodes.Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := nodes.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
}

func options(t testing.TB) Options {
	return Options{Client: plane.Admin(t), Image: "ccmadm:test", AtOnce: 2, Timeout: time.Minute, Holder: "a test", Progress: func(text string) { t.Log(text) }}
}

// expectNothing says what a probe has left.
func expectNothing(t testing.TB) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	list, err := plane.Admin(t).CoreV1().Pods(v1alpha1.Namespace).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.ProbeLabel})
	if err != nil || len(list.Items) > 0 {
		t.Errorf("%d pods are left: %v", len(list.Items), err)
	}
	if _, err := plane.Admin(t).CoordinationV1().Leases(v1alpha1.Namespace).Get(ctx, v1alpha1.ProbeName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Lease is left: %v", err)
	}
}

// TestCluster_Run: each Node is asked by two pods, not more than AtOnce Nodes at a time; pods have no privileges and no token; what
// cannot be asked is a fact about the probe; and nothing is left.
func TestCluster_Run(t *testing.T) {
	addNodes(t, "a", "b", "c", "d=False", "e")
	k := &kubelets{says: func(pod *corev1.Pod, task *probe.Task) *corev1.PodStatus {
		switch {
		case pod.Spec.NodeName == "b" && pod.Spec.HostNetwork:
			return answers(task, probe.Service)
		case pod.Spec.NodeName == "c" && pod.Spec.HostNetwork:
			return ended(0, `{"v":1,"n":9999}`)
		case pod.Spec.NodeName == "c":
			return &corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
				Name: container, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}},
			}}}
		case pod.Spec.NodeName == "e" && pod.Spec.HostNetwork:
			return ended(1, "write the answer: no space")
		case pod.Spec.NodeName == "e":
			return &corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfpods", Message: "too many pods"}
		}
		return answers(task, "")
	}}
	k.work(t.Context(), t)
	f, err := Run(t.Context(), options(t))
	if err != nil {
		t.Fatal(err)
	}
	expectNothing(t)
	if k.most > 2 || len(k.pods) != 9 {
		t.Errorf("%d Nodes had pods at once, want 2; there were %d pods, want 9", k.most, len(k.pods))
	}
	for _, p := range k.pods {
		c := p.Spec.Containers[0]
		if p.Spec.AutomountServiceAccountToken == nil || *p.Spec.AutomountServiceAccountToken || len(p.Spec.Volumes) > 0 ||
			*c.SecurityContext.AllowPrivilegeEscalation || c.SecurityContext.Privileged != nil || p.Spec.ActiveDeadlineSeconds == nil {
			t.Errorf("a pod is %+v", p.Spec)
		}
	}
	found := f.Findings()
	if len(found) != 1 || found[0].ID != finding.NodeServiceUnanswered || found[0].Object != "Node/b" {
		t.Errorf("found %+v", found)
	}
	text := strings.Join(f.Lines(), "\n")
	for _, want := range []string{
		"asked from 3 Nodes", "machine of Node/c: it cannot be asked: read the pod's answer: want", "a pod of Node/c: it cannot be asked: start the pod",
		"ImagePullBackOff", "a pod of Node/d: it cannot be asked: the Node is not Ready", "exit status 1: write the answer: no space",
		"OutOfpods", "DNS: the cluster has no Service/kube-system/kube-dns",
	} {
		if !strings.Contains(strings.ReplaceAll(text, "the machine", "machine"), want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	kubeletsAsked := 0
	for _, target := range f.Targets {
		if target.Subject == probe.Kubelet {
			kubeletsAsked++
		}
	}
	if kubeletsAsked != 5 {
		t.Errorf("kubelets of %d Nodes were asked for, want 5: %+v", kubeletsAsked, f.Targets)
	}
}

// TestCluster_Limits: a kubelet that begins nothing takes no longer than the time limit, and one that was not named has no pod.
func TestCluster_Limits(t *testing.T) {
	addNodes(t, "a", "b")
	k := &kubelets{says: func(*corev1.Pod, *probe.Task) *corev1.PodStatus { return nil }}
	k.work(t.Context(), t)
	o := options(t)
	o.Timeout, o.Nodes = 8*time.Second, []string{"b"}
	began := time.Now()
	f, err := Run(t.Context(), o)
	if err != nil || len(f.Sources) != 2 || f.Sources[0].Node != "b" || len(f.Findings()) > 0 ||
		!strings.Contains(f.Sources[0].Unasked, "its kubelet has not begun the pod, and there was no time left") {
		t.Errorf("got %+v, %v", f, err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %s", took)
	}
	expectNothing(t)
}

// refuses answers 503 to each pod that is to be made.
type refuses struct{ next http.RoundTripper }

func (f refuses) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/pods") {
		return f.next.RoundTrip(r)
	}
	return &http.Response{
		StatusCode: http.StatusServiceUnavailable, Body: io.NopCloser(strings.NewReader("no")), Header: http.Header{}, Request: r,
	}, nil
}

// TestCluster_Unavailable: an API server that makes no pod is a fact about the probe, and none about the network.
func TestCluster_Unavailable(t *testing.T) {
	addNodes(t, "a")
	config := rest.CopyConfig(plane.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return refuses{next} })
	o := options(t)
	o.Client, o.Timeout = kubernetes.NewForConfigOrDie(config), 6*time.Second
	f, err := Run(t.Context(), o)
	if err != nil || len(f.Findings()) > 0 || f.Complete() || !strings.Contains(f.Sources[0].Unasked, "create its pod in kube-system: ") {
		t.Errorf("got %+v, %v", f, err)
	}
	expectNothing(t)
}

// TestCluster_Stopped: Ctrl-C deletes what is there.
func TestCluster_Stopped(t *testing.T) {
	addNodes(t, "a", "b")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	k := &kubelets{says: func(*corev1.Pod, *probe.Task) *corev1.PodStatus { stop(); return nil }}
	k.work(t.Context(), t)
	if f, err := Run(ctx, options(t)); f != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("got %+v, %v", f, err)
	}
	if len(k.pods) == 0 {
		t.Error("no pod was made")
	}
	expectNothing(t)
}

// TestCluster_TwoRuns: the pods and the Lease of a killed run go with the next one; a run under way keeps another from beginning, and
// keeps its pods. A pod that only has a copy of the label stays.
func TestCluster_TwoRuns(t *testing.T) {
	addNodes(t, "a")
	client := plane.Admin(t)
	killed := newRun(options(t))
	pod, err := killed.newPod("a", probe.Machine, &probe.Task{})
	if err != nil {
		t.Fatal(err)
	}
	pods, leases := client.CoreV1().Pods(v1alpha1.Namespace), client.CoordinationV1().Leases(v1alpha1.Namespace)
	copied := pod.DeepCopy()
	copied.Name = "copied"
	for _, p := range []*corev1.Pod{pod, copied} {
		if _, err := pods.Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	lease, err := leases.Create(t.Context(), killed.newLease(), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	k := &kubelets{says: func(pod *corev1.Pod, task *probe.Task) *corev1.PodStatus { return answers(task, "") }}
	k.work(t.Context(), t)

	renewing, stop := context.WithCancel(t.Context())
	alive, done := killed, make(chan struct{})
	alive.lease = lease
	go alive.renew(renewing, done, func(err error) { t.Errorf("a run under way: %v", err) })
	if _, err := Run(t.Context(), options(t)); err == nil || !strings.Contains(err.Error(), "another probe is under way, by a test") {
		t.Errorf("beside a run under way: %v", err)
	}
	if _, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{}); err != nil {
		t.Errorf("the pod of a run under way: %v", err)
	}
	stop()
	<-done
	if f, err := Run(t.Context(), options(t)); err != nil || len(f.Findings()) > 0 {
		t.Errorf("after a killed run: %+v, %v", f, err)
	}
	if _, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the pod of a killed run: %v", err)
	}
	now := int64(0)
	if err := pods.Delete(t.Context(), copied.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Errorf("the pod with a copied label: %v", err)
	}
	expectNothing(t)
}
