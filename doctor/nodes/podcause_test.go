package nodes

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

var podsSeen = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

func named(name, node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Namespace, p.Name, p.Spec.NodeName = v1alpha1.Namespace, name, node
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "ccm-5d9f"}}
	}
}

// evicted is one that a kubelet has ended, with the state of its container.
func evicted(p *corev1.Pod) {
	killed(p)
	p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted"
	p.Status.Message = "The node was low on resource: ephemeral-storage."
}

func warning(pod, reason, message string, age time.Duration) corev1.Event {
	return corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: v1alpha1.Namespace, Name: pod}, Type: corev1.EventTypeWarning,
		Reason: reason, Message: message, LastTimestamp: metav1.Time{Time: podsSeen.Add(-age)},
	}
}

// TestJudge_Pods: of several pods that do not run, the one tells why that is to run next, and where its state does not say it, the kubelet's Event.
func TestJudge_Pods(t *testing.T) {
	creating := waiting("ContainerCreating", "")
	for _, tt := range []struct {
		name   string
		pods   []corev1.Pod
		events []corev1.Event
		id     finding.ID
		words  string
	}{
		{
			"the leader's machine is gone, and what replaces its pod gets no image",
			[]corev1.Pod{newPod(named("ccm-5d9f-a", "cp1"), deleted), newPod(named("ccm-5d9f-b", "cp2"), waiting("ImagePullBackOff", "not found"))},
			nil, finding.ImagePull, "of pod ccm-5d9f-b cannot be pulled: not found",
		},
		{
			"a pod was evicted, and the next one gets no image",
			[]corev1.Pod{newPod(named("ccm-5d9f-a", "cp1"), evicted), newPod(named("ccm-5d9f-b", "cp2"), waiting("ImagePullBackOff", "not found"))},
			nil, finding.ImagePull, "of pod ccm-5d9f-b",
		},
		{
			"a pod was evicted, and there is no other",
			[]corev1.Pod{newPod(named("ccm-5d9f-a", "cp1"), evicted)},
			nil, finding.PodTerminated, "has stopped: Evicted: The node was low on resource: ephemeral-storage.: last with exit code 137",
		},
		{
			"a volume is not mounted",
			[]corev1.Pod{newPod(named("ccm-5d9f-a", "cp1"), creating)},
			[]corev1.Event{
				warning("ccm-5d9f-a", "FailedMount", "MountVolume.SetUp failed: driver name x not found", time.Minute),
				warning("ccm-5d9f-a", "FailedScheduling", "0/3 nodes are available", 2*time.Minute),
				warning("ccm-5d9f-b", "FailedMount", "another pod's", time.Second),
			},
			finding.PodWaiting, "ContainerCreating; its last warning is FailedMount: MountVolume.SetUp failed: driver name x not found",
		},
		{
			"what an Event of before says",
			[]corev1.Pod{newPod(named("ccm-5d9f-a", "cp1"), creating)},
			[]corev1.Event{warning("ccm-5d9f-a", "FailedMount", "of before", 20*time.Minute)},
			finding.PodWaiting, "is waiting: ContainerCreating",
		},
		{
			"a state that says why",
			[]corev1.Pod{newPod(named("ccm-5d9f-a", "cp1"), waiting("CreateContainerConfigError", "no key"))},
			[]corev1.Event{warning("ccm-5d9f-a", "Failed", "again", time.Minute)},
			finding.PodWaiting, "CreateContainerConfigError: no key",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &Facts{
				Now: podsSeen, Nodes: []corev1.Node{*newNode("w1", unresolved, tainted)}, Pods: tt.pods, Events: tt.events,
				LeaseName: v1alpha1.LeaseName, Lease: newLease("cp1_1234", podsSeen.Add(-10*time.Minute)),
			}
			cause := Judge(f, nil).Nodes[0].Cause
			if cause == nil || cause.ID != tt.id || !strings.HasSuffix(cause.Message, tt.words) && !strings.Contains(cause.Message, tt.words+" ") {
				t.Errorf("got %+v, want %s with %q", cause, tt.id, tt.words)
			}
		})
	}
}

// TestLastWord: that a Lease is lost is no cause, and the error before it is.
func TestLastWord(t *testing.T) {
	const denied = `E1121 10:00:00.000000 1 leaderelection.go:509] "Failed to update lease" err="admission webhook denied the request" lock="kube-system/ccm"`
	const lostLease = `E1121 10:00:10.000000 1 controllermanager.go:238] "leaderelection lost"`
	for _, tt := range []struct {
		log  []string
		want string
	}{
		{nil, ""},
		{[]string{"a", "b"}, "b"},
		{[]string{lostLease}, `"leaderelection lost"`},
		{
			[]string{denied, `I1121 10:00:09.000000 1 leaderelection.go:304] "Failed to renew lease" err="context deadline exceeded"`, lostLease},
			`"leaderelection lost"; before that: "Failed to update lease" err="admission webhook denied the request" lock="kube-system/ccm"`,
		},
	} {
		if got := LastWord(tt.log); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
