package nodes

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// lab is a cluster as an administrator sees it, without controllers: the tests are the kubelet and the CCM.
type lab struct {
	*testing.T
	kubernetes.Interface
}

func newLab(t *testing.T) lab {
	t.Helper()
	l := lab{t, kubernetes.NewForConfigOrDie(cluster.Config)}
	t.Cleanup(func() {
		ctx, now := context.WithoutCancel(t.Context()), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
		for _, err := range []error{
			l.CoreV1().Nodes().DeleteCollection(ctx, now, metav1.ListOptions{}),
			l.CoreV1().Pods(v1alpha1.Namespace).DeleteCollection(ctx, now, metav1.ListOptions{}),
			l.CoordinationV1().Leases(v1alpha1.Namespace).DeleteCollection(ctx, now, metav1.ListOptions{FieldSelector: byName(v1alpha1.LeaseName)}),
		} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	return l
}

func (l lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// register makes a Node with all that it has, status included.
func (l lab) register(n *corev1.Node) {
	l.Helper()
	status := n.Status
	made, err := l.CoreV1().Nodes().Create(l.Context(), n, metav1.CreateOptions{})
	l.must(err)
	made.Status = status
	_, err = l.CoreV1().Nodes().UpdateStatus(l.Context(), made, metav1.UpdateOptions{})
	l.must(err)
}

func (l lab) change(name string, change func(*corev1.Node)) {
	l.Helper()
	n, err := l.CoreV1().Nodes().Get(l.Context(), name, metav1.GetOptions{})
	l.must(err)
	change(n)
	_, err = l.CoreV1().Nodes().Update(l.Context(), n, metav1.UpdateOptions{})
	l.must(err)
}

func (l lab) changeStatus(name string, change func(*corev1.Node)) {
	l.Helper()
	n, err := l.CoreV1().Nodes().Get(l.Context(), name, metav1.GetOptions{})
	l.must(err)
	change(n)
	_, err = l.CoreV1().Nodes().UpdateStatus(l.Context(), n, metav1.UpdateOptions{})
	l.must(err)
}

func (l lab) lead(holder string, seconds int32) {
	l.Helper()
	lease := newLease(holder, time.Now())
	lease.Spec.LeaseDurationSeconds = &seconds
	_, err := l.CoordinationV1().Leases(v1alpha1.Namespace).Create(l.Context(), lease, metav1.CreateOptions{})
	l.must(err)
}

// run makes a pod of the CCM with the given status.
func (l lab) run(p corev1.Pod) {
	l.Helper()
	status := p.Status
	p.Namespace, p.Labels = v1alpha1.Namespace, map[string]string{v1alpha1.ComponentLabel: v1alpha1.Component}
	p.Spec.Containers = []corev1.Container{{Name: v1alpha1.Component, Image: "ccm"}}
	made, err := l.CoreV1().Pods(v1alpha1.Namespace).Create(l.Context(), &p, metav1.CreateOptions{})
	l.must(err)
	made.Status = status
	_, err = l.CoreV1().Pods(v1alpha1.Namespace).UpdateStatus(l.Context(), made, metav1.UpdateOptions{})
	l.must(err)
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func quiet(Status) {}

func TestCluster_Wait(t *testing.T) {
	l := newLab(t)
	next := map[State]func(){
		Absent: func() {
			l.register(newNode("w1", tainted, unresolved, unaddressed, notReadyYet))
		},
		Tainted:     func() { l.lead("cp1_1234", 15) },
		Claimed:     func() { l.change("w1", func(n *corev1.Node) { n.Spec.ProviderID = "onprem://default/w1" }) },
		Resolved:    func() { l.change("w1", func(n *corev1.Node) { n.Spec.Taints = nil }) },
		Initialized: func() { l.changeStatus("w1", func(n *corev1.Node) { n.Status = newNode("w1", notReadyYet).Status }) },
		Addressed:   func() { l.changeStatus("w1", func(n *corev1.Node) { n.Status = newNode("w1").Status }) },
	}
	var way []State
	got, err := Wait(within(t, time.Minute), l, WaitOptions{Nodes: []string{"w1"}, Until: Ready, Changed: func(s Status) {
		way = append(way, s.State)
		if step := next[s.State]; step != nil {
			step()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]State{Absent, Tainted, Claimed, Resolved, Initialized, Addressed, Ready}, way); diff != "" {
		t.Errorf("the way (-want +got):\n%s", diff)
	}
	if len(got) != 1 || got[0].ProviderID != "onprem://default/w1" || got[0].Cause != nil {
		t.Errorf("got %+v", got)
	}
}

func TestCluster_Wait_AllNodes(t *testing.T) {
	l := newLab(t)
	l.register(newNode("a"))
	l.register(newNode("b", tainted, unresolved))
	got, err := Wait(within(t, time.Minute), l, WaitOptions{Until: Addressed, Changed: func(s Status) {
		if s.Node == "b" && s.State == Tainted {
			l.change("b", func(n *corev1.Node) { n.Spec.Taints, n.Spec.ProviderID = nil, "onprem://default/b" })
		}
	}})
	if err != nil || len(got) != 2 {
		t.Errorf("got %v, %v", got, err)
	}
}

// A worker has nothing but its kubelet's credentials, which show one Node and neither Lease nor pods.
func TestCluster_Wait_AsKubelet(t *testing.T) {
	l := newLab(t)
	l.register(newNode("w1", tainted, unresolved))
	l.register(newNode("w2"))
	cfg, err := cluster.User("system:node:w1", "system:nodes")
	l.must(err)
	kubelet := kubernetes.NewForConfigOrDie(cfg)

	_, err = Wait(within(t, time.Second), kubelet, WaitOptions{Nodes: []string{"w1"}, Until: Addressed, Changed: quiet})
	var late *WaitError
	if !errors.As(err, &late) || late.Nodes[0].Cause.Reason != "NotVisible" {
		t.Fatalf("got error %v, want one that says what a kubelet may not see", err)
	}
	_, err = Wait(
		within(t, time.Minute),
		kubelet,
		WaitOptions{Nodes: []string{"w1"}, Until: Addressed, Changed: func(s Status) {
			if s.State == Tainted {
				l.change("w1", func(n *corev1.Node) { n.Spec.Taints, n.Spec.ProviderID = nil, "onprem://default/w1" })
			}
		}},
	)
	l.must(err)
	_, err = Wait(within(t, time.Minute), kubelet, WaitOptions{Nodes: []string{"w2"}, Until: Addressed, Changed: quiet})
	if err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("got error %v, want that w2 is none of its business", err)
	}
}

func TestCluster_Wait_LeaseLapses(t *testing.T) {
	l := newLab(t)
	l.register(newNode("w1", tainted, unresolved))
	l.lead("cp1_1234", 2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var way []State
	_, err := Wait(ctx, l, WaitOptions{Nodes: []string{"w1"}, Until: Ready, Changed: func(s Status) {
		way = append(way, s.State)
		if len(way) > 1 && s.State == Tainted {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want that it was cancelled", err)
	}
	if got := way[len(way)-2:]; !cmp.Equal(got, []State{Claimed, Tainted}) {
		t.Errorf("got %v, want Claimed, then Tainted without any event", way)
	}
}

func TestCluster_Wait_Late(t *testing.T) {
	nobody := rest.CopyConfig(cluster.Config)
	nobody.Host = "https://127.0.0.1:1"
	tests := []struct {
		name    string
		prepare func(lab)
		cfg     *rest.Config
		nodes   []string
		wantErr string
	}{
		{"no node at all", func(lab) {}, cluster.Config, nil, "there is no node at all"},
		{"a node that is not there", func(lab) {}, cluster.Config, []string{"w9"}, "w9 Absent: there is no such Node"},
		{"the pod cannot be scheduled", func(l lab) {
			l.register(newNode("w1", tainted, unresolved))
			p := newPod(unschedulable)
			p.Spec.NodeName = ""
			l.run(p)
		}, cluster.Config, nil, "w1 Tainted: pod cloud-controller-manager-cp1 cannot be scheduled: 0/1 nodes are available"},
		{"nobody listens", func(lab) {}, nobody, nil, "connection refused"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.prepare(newLab(t))
			_, err := Wait(
				within(t, 1500*time.Millisecond),
				kubernetes.NewForConfigOrDie(tt.cfg),
				WaitOptions{Nodes: tt.nodes, Until: Addressed, Changed: quiet},
			)
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("got error %v, want %q", err, tt.wantErr)
			}
		})
	}
}
