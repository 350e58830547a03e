package components

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/redact"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// NoSandbox is the reason of a kubelet's Events about a pod for which it cannot even make the network.
const NoSandbox = "FailedCreatePodSandBox"

const (
	// starting is how long a pod may wait for its sandbox: a CNI plugin that has just been installed starts meanwhile.
	starting = 30 * time.Second
	// mostSandboxes bounds the pods that are asked for.
	mostSandboxes = 20
)

// Sandbox is a Node on which pods get no sandbox.
type Sandbox struct {
	Node string `json:"node"`
	// Pod is one of them, as NAMESPACE/NAME, Message the kubelet's latest about it.
	Pod     string `json:"pod"`
	Message string `json:"message"`
}

// Sandboxes finds, by Events of kubelets, on which Nodes pods get no sandbox now. It asks for the newest of the pods: an Event is about
// the past.
func Sandboxes(ctx context.Context, client kubernetes.Interface, events []corev1.Event, now time.Time) ([]Sandbox, error) {
	latest := map[string]*corev1.Event{} // by UID of the pod
	for i := range events {
		e := &events[i]
		if e.Reason != NoSandbox || e.InvolvedObject.Kind != "Pod" || now.Sub(nodes.LastSeen(e)) > nodes.RecentEvent {
			continue
		}
		if other := latest[string(e.InvolvedObject.UID)]; other == nil || nodes.LastSeen(e).After(nodes.LastSeen(other)) {
			latest[string(e.InvolvedObject.UID)] = e
		}
	}
	var newest []*corev1.Event
	for _, e := range latest {
		newest = append(newest, e)
	}
	slices.SortFunc(newest, func(a, b *corev1.Event) int {
		return cmp.Or(nodes.LastSeen(b).Compare(nodes.LastSeen(a)), strings.Compare(string(a.InvolvedObject.UID), string(b.InvolvedObject.UID)))
	})
	var list []Sandbox
	for _, e := range newest[:min(len(newest), mostSandboxes)] {
		o := e.InvolvedObject
		if slices.ContainsFunc(list, func(s Sandbox) bool { return s.Node == e.Source.Host }) {
			continue
		}
		p, err := client.CoreV1().Pods(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("get pod %s/%s: %w", o.Namespace, o.Name, err)
		}
		if p.UID == o.UID && p.Spec.NodeName == e.Source.Host && waitsForSandbox(p, now) {
			list = append(list, Sandbox{p.Spec.NodeName, p.Namespace + "/" + p.Name, finding.Clean(redact.Text(e.Message))})
		}
	}
	slices.SortFunc(list, func(a, b Sandbox) int { return strings.Compare(a.Node, b.Node) })
	return list, nil
}

// waitsForSandbox tells whether no container of a pod that is to run was ever started.
func waitsForSandbox(p *corev1.Pod, now time.Time) bool {
	started := slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), func(s corev1.ContainerStatus) bool {
		return s.State.Waiting == nil || s.LastTerminationState.Terminated != nil
	})
	return p.Status.Phase == corev1.PodPending && p.DeletionTimestamp == nil && !started && now.Sub(p.CreationTimestamp.Time) > starting
}

// sandboxes is about Nodes that cannot start pods of any namespace.
func (j *judge) sandboxes() []finding.Finding {
	var list []finding.Finding
	for _, s := range j.Sandboxes {
		if j.Skip(s.Node) {
			continue
		}
		f := finding.SandboxFails.New("Node/"+s.Node, "pod "+s.Pod+": "+nodes.Shorten(s.Message))
		f.Next = "on " + s.Node + ": journalctl -u kubelet -u containerd --no-pager -n 50"
		if strings.Contains(s.Message, `"cni0" already has an IP address different from`) {
			f.Message += ". The bridge is left from another pod network, and the CNI plugin makes it again"
			f.Next = "on " + s.Node + ": ip link delete cni0"
		}
		list = append(list, f)
	}
	return list
}
