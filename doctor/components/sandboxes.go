package components

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/redact"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// NoSandbox is the reason of a kubelet's Events about a pod for which it cannot even make the network.
const NoSandbox = "FailedCreatePodSandBox"

const (
	// starting is how long a pod may wait for its sandbox: a CNI plugin that has just been installed starts meanwhile.
	starting = 30 * time.Second
	// mostSandboxes bounds the pods that are asked for, perNode and perNamespace those of one Node, and of a namespace on it.
	mostSandboxes, perNode, perNamespace = 40, 4, 2
)

// Sandbox is a Node on which pods get no sandbox.
type Sandbox struct {
	Node string `json:"node"`
	// Pod is one of them, as NAMESPACE/NAME, Message the kubelet's latest about it.
	Pod     string `json:"pod"`
	Message string `json:"message"`
}

// Lately tells whether an Event is about a pod without a sandbox, and not of the past.
func Lately(e *corev1.Event, now time.Time) bool {
	age := now.Sub(nodes.LastSeen(e))
	return e.Reason == NoSandbox && e.InvolvedObject.Kind == "Pod" && age < nodes.RecentEvent && age > -time.Minute
}

// Sandboxes finds, by Events of kubelets, on which Nodes pods get no sandbox now. It asks for the newest of the pods: an Event is about
// the past, and anybody who may write Events may have written it. The error is of those that could not be asked for.
func Sandboxes(ctx context.Context, client kubernetes.Interface, events []corev1.Event, now time.Time) ([]Sandbox, error) {
	var newest []*corev1.Event
	for i := range events {
		if Lately(&events[i], now) {
			newest = append(newest, &events[i])
		}
	}
	slices.SortStableFunc(newest, func(a, b *corev1.Event) int { return nodes.LastSeen(b).Compare(nodes.LastSeen(a)) })
	asked, of := map[types.UID]bool{}, map[string]int{} // of a Node, and of a namespace on it
	var list []Sandbox
	var unknown error
	for _, e := range newest {
		o, host := e.InvolvedObject, e.Source.Host
		inNamespace := host + "/" + o.Namespace
		found := slices.ContainsFunc(list, func(s Sandbox) bool { return s.Node == host })
		if found || asked[o.UID] || of[host] >= perNode || of[inNamespace] >= perNamespace || len(asked) >= mostSandboxes {
			continue
		}
		asked[o.UID] = true
		of[host]++
		of[inNamespace]++
		p, err := client.CoreV1().Pods(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			unknown = fmt.Errorf("get pod %s/%s: %w", finding.Clean(o.Namespace), finding.Clean(o.Name), err)
		case p.UID == o.UID && p.Spec.NodeName == host && waitsForSandbox(p, now) && !particular(&p.Spec):
			list = append(list, Sandbox{host, p.Namespace + "/" + p.Name, finding.Clean(redact.Text(e.Message))})
		}
	}
	slices.SortStableFunc(list, func(a, b Sandbox) int { return strings.Compare(a.Node, b.Node) })
	return list, unknown
}

// waitsForSandbox tells whether a pod that is to run has had no sandbox since it was placed.
func waitsForSandbox(p *corev1.Pod, now time.Time) bool {
	started := slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), func(s corev1.ContainerStatus) bool {
		return s.State.Waiting == nil || s.LastTerminationState.Terminated != nil
	})
	placed := p.CreationTimestamp.Time
	for _, c := range p.Status.Conditions {
		switch {
		case c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionTrue:
			return false
		case c.Type == corev1.PodScheduled && c.LastTransitionTime.After(placed):
			placed = c.LastTransitionTime.Time
		}
	}
	return p.Status.Phase == corev1.PodPending && p.DeletionTimestamp == nil && !started && now.Sub(placed) > starting
}

// particular tells whether a pod asks of its sandbox what others do not, so that it may fail alone.
func particular(p *corev1.PodSpec) bool {
	c := p.SecurityContext
	return p.RuntimeClassName != nil || c != nil && (len(c.Sysctls) > 0 || c.SELinuxOptions != nil || c.AppArmorProfile != nil ||
		c.SeccompProfile != nil && c.SeccompProfile.Type == corev1.SeccompProfileTypeLocalhost)
}

// sandboxes is about Nodes that cannot start pods of any namespace.
func (j *judge) sandboxes() []finding.Finding {
	var list []finding.Finding
	for _, s := range j.Sandboxes {
		if j.Skip(s.Node) {
			continue
		}
		f := finding.SandboxFails.New("Node/"+s.Node, "pod "+s.Pod+": "+nodes.Shorten(s.Message))
		f.Next = "on " + s.Node + ": journalctl -u kubelet -u " + nodes.RuntimeOf(j.Nodes, s.Node).Unit + " --no-pager -n 50"
		if strings.Contains(s.Message, `"cni0" already has an IP address different from`) {
			f.Do = "where the bridge has no address of the Node's podCIDR, it is left from another pod network: delete it, and the CNI plugin makes it again"
			f.Next = "kubectl get node " + s.Node + " -o jsonpath={.spec.podCIDRs}; on " + s.Node + ": ip -brief address show cni0"
		}
		list = append(list, f)
	}
	return list
}

// networks is about DaemonSets outside of kube-system that bring a CNI plugin, which lack pods. Those in it are workloads as others.
func (j *judge) networks() []finding.Finding {
	const without = "pods on the Node get no network, or do not reach pods of other Nodes"
	var list []finding.Finding
	for i := range j.Networks {
		n := &j.Networks[i]
		if n.Namespace == v1alpha1.Namespace || n.Ready >= n.Wanted || n.Changing {
			continue
		}
		object := daemonSet + "/" + n.Namespace + "/" + n.Name
		count := fmt.Sprintf("%s: %d of %d pods are ready", n.Name, n.Ready, n.Wanted)
		var pods []*corev1.Pod
		for k := range n.Unready {
			pods = append(pods, &n.Unready[k])
		}
		missing := int(n.Wanted-n.Ready) - len(pods)
		if found := j.unready(object, pods, count, without); len(found) > 0 {
			list = append(list, found...)
		} else if missing > j.unsettled() && len(pods) < MostUnready && j.Listed(n.Namespace) {
			f := finding.ComponentMissing.New(object, count+": "+without)
			f.Next = fmt.Sprintf("kubectl -n %s describe daemonset %s; kubectl -n %[1]s get pods -o wide", n.Namespace, n.Name)
			list = append(list, f)
		}
	}
	return list
}

// unsettled is how many Nodes may lack pods for a reason that is said elsewhere, or that is about to pass.
func (j *judge) unsettled() int {
	return len(j.Nodes) - len(j.settled(func(*corev1.Node) bool { return true }))
}
