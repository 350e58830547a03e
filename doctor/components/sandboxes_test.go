package components

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

// pending is a pod that has waited on a Node for its sandbox for a minute, and the kubelet's Event about it.
func pending(name, node, message string) (*corev1.Pod, corev1.Event) {
	p := newPod(name, node)
	p.Namespace, p.UID, p.CreationTimestamp = "shop", types.UID(name), ago(time.Minute)
	p.Status.Phase = corev1.PodPending
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}}
	e := corev1.Event{
		Reason: NoSandbox, Message: message, LastTimestamp: ago(10 * time.Second), Source: corev1.EventSource{Component: "kubelet", Host: node},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: name, UID: p.UID},
	}
	e.Namespace, e.Name = p.Namespace, name
	return p, e
}

// TestSandboxes: Events of pods that have started since, are gone or were made again tell nothing of now; and a pod of another Node than
// the Event's host, which anybody may have written, tells nothing of that.
func TestSandboxes(t *testing.T) {
	const message = `Failed to create pod sandbox: plugin type="bridge" failed (add): failed to set bridge addr: "cni0" already has an IP address different from 10.244.2.1/24`
	for _, tt := range []struct {
		name   string
		change func(*corev1.Pod, *corev1.Event)
		want   string
	}{
		{"it waits", func(*corev1.Pod, *corev1.Event) {}, "w2 shop/web"},
		{"it has just been made", func(p *corev1.Pod, _ *corev1.Event) { p.CreationTimestamp = ago(20 * time.Second) }, ""},
		{"it runs by now", func(p *corev1.Pod, _ *corev1.Event) { p.Status.Phase = corev1.PodRunning }, ""},
		{"its image is pulled by now", func(p *corev1.Pod, _ *corev1.Event) {
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		}, ""},
		{"it ends", func(p *corev1.Pod, _ *corev1.Event) {
			p.DeletionTimestamp = new(ago(time.Second))
			p.Finalizers = []string{"a/b"}
		}, ""},
		{"another of its name", func(p *corev1.Pod, _ *corev1.Event) { p.UID = "other" }, ""},
		{"gone", func(p *corev1.Pod, _ *corev1.Event) { p.Name = "other" }, ""},
		{"long ago", func(_ *corev1.Pod, e *corev1.Event) { e.LastTimestamp = ago(time.Hour) }, ""},
		{"of another Node", func(_ *corev1.Pod, e *corev1.Event) { e.Source.Host = "w1" }, ""},
		{"its sandbox is there, and its image not", func(p *corev1.Pod, _ *corev1.Event) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}}
		}, ""},
		{"it was placed a moment ago", func(p *corev1.Pod, _ *corev1.Event) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: ago(3 * time.Second)}}
		}, ""},
		{"it asks for a runtime of its own", func(p *corev1.Pod, _ *corev1.Event) { p.Spec.RuntimeClassName = new("kata") }, ""},
		{"in the future", func(_ *corev1.Pod, e *corev1.Event) { e.LastTimestamp = ago(-time.Hour) }, ""},
		{"of another kind", func(_ *corev1.Pod, e *corev1.Event) { e.Reason = "BackOff" }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, e := pending("web", "w2", message)
			tt.change(p, &e)
			list, err := Sandboxes(t.Context(), fake.NewClientset(p), []corev1.Event{e, e}, now)
			got := ""
			if len(list) == 1 {
				got = list[0].Node + " " + list[0].Pod
			}
			if err != nil || len(list) > 1 || got != tt.want {
				t.Errorf("%q, error %v, want %q", got, err, tt.want)
			}
		})
	}
}

// TestSandboxes_Hidden: what a tenant writes about pods of its own, or of names that no pod can have, hides no Node.
func TestSandboxes_Hidden(t *testing.T) {
	p, e := pending("web", "w2", "failed")
	e.LastTimestamp = ago(2 * time.Minute)
	objects, events := []runtime.Object{p}, []corev1.Event{}
	for i := range 30 {
		other, event := pending(fmt.Sprint("tenant", i), "w1", "failed")
		other.Namespace, event.InvolvedObject.Namespace = "tenant", "tenant"
		other.Spec.RuntimeClassName = new("none")
		objects, events = append(objects, other), append(events, event)
	}
	_, event := pending("a/b", "w1", "failed")
	list, err := Sandboxes(t.Context(), fake.NewClientset(objects...), append(events, event, e), now)
	if err != nil || len(list) != 1 || list[0].Node != "w2" {
		t.Errorf("found %v, error %v", list, err)
	}
}

// TestJudge_Sandboxes: the Node is named, once, and not each of its pods; of a Node that is not Ready another finding tells.
func TestJudge_Sandboxes(t *testing.T) {
	w := newWorld()
	dns := w.pods[len(w.pods)-1]
	dns.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: ago(time.Hour)}}}
	w.deployments[0].Status.ReadyReplicas = 1
	c := Collector{Trim: func(*corev1.Pod) {}}
	for _, p := range w.pods {
		c.Pod(p)
	}
	c.DaemonSet(w.daemonSets[0])
	c.Deployment(w.deployments[0])
	seen := c.Seen(w.Nodes)
	seen.Sandboxes = []Sandbox{{Node: "w2", Pod: "shop/web", Message: `failed: "cni0" already has an IP address different from 10.244.2.1/24`}}
	list := Judge(seen, w.Cluster)
	if len(list) != 1 || list[0].Object != "Node/w2" || !strings.Contains(list[0].Next, "ip -brief address show cni0") {
		t.Errorf("found %+v", list)
	}
	seen.Sandboxes[0].Message = `failed: "eth0" already has an IP address different from 10.244.2.1/24`
	if list = Judge(seen, w.Cluster); len(list) != 1 || strings.Contains(list[0].Next, "cni0") {
		t.Errorf("found %+v", list)
	}
	w.Skip = func(node string) bool { return node == "w2" }
	if list = Judge(seen, w.Cluster); len(list) > 0 {
		t.Errorf("found %+v", list)
	}
}

// TestJudge_Runtime: commands go by the container runtime of the Node.
func TestJudge_Runtime(t *testing.T) {
	w := newWorld()
	w.Nodes[3].Status.NodeInfo.ContainerRuntimeVersion = "cri-o://1.36.0"
	p := w.named("coredns-5d9f-w1")[0]
	p.Status.Conditions[0].Status = corev1.ConditionFalse
	p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
	seen := &Seen{Unready: []corev1.Pod{*p}, Sandboxes: []Sandbox{{Node: "w1", Pod: "default/x"}, {Node: "w2", Pod: "default/x"}}}
	seen.Workloads = []Workload{{Kind: deployment, Name: DNS, Wanted: 2, Ready: 1, Observed: true}}
	var next []string
	for _, f := range Judge(seen, w.Cluster) {
		next = append(next, f.Next)
	}
	want := []string{
		"on w1: podman load -i FILE", "on w1: journalctl -u kubelet -u crio --no-pager -n 50", "on w2: journalctl -u kubelet -u containerd --no-pager -n 50",
	}
	if !slices.Equal(next, want) {
		t.Errorf("got %q, want %q", next, want)
	}
}
