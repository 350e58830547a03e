package nodes

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

func newPod(changes ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "cloud-controller-manager-cp1"}, Spec: corev1.PodSpec{NodeName: "cp1"}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: v1alpha1.Component, Image: "ghcr.io/ccmadm/ccm:v9",
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func waiting(reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
}

func crashed(p *corev1.Pod) {
	waiting("CrashLoopBackOff", "back-off 5m0s")(p)
	p.Status.ContainerStatuses[0].RestartCount = 7
	p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}
}

func unschedulable(p *corev1.Pod) {
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available: 1 node(s) had untolerated taint(s)",
	}}}
}

func TestCauseOf(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	live, stale := newLease("cp1_1234", now.Add(-2*time.Second)), newLease("cp9_1234", now.Add(-3*time.Minute))
	waits := newNode("w1", unresolved, tainted)
	logged := func(lines ...string) map[string][]string {
		return map[string][]string{"cloud-controller-manager-cp1": lines}
	}
	pods := func(p ...corev1.Pod) []corev1.Pod { return p }
	tests := []struct {
		name   string
		node   *corev1.Node
		e      evidence
		reason string
		words  string
	}{
		{"absent", nil, evidence{}, "NodeAbsent", "has not registered"},
		{"never tainted", newNode("w1", unresolved), evidence{}, "NeverTainted", "--cloud-provider=external"},
		{"may not look", waits, evidence{podsErr: apierrors.NewForbidden(corev1.Resource("pods"), "", nil)}, "NotVisible", "a worker's kubelet may not"},
		{"may look at the lease only", waits, evidence{podsErr: apierrors.NewForbidden(corev1.Resource("pods"), "", nil), lease: stale, leaseName: v1alpha1.LeaseName}, "NotVisible", "cp9_1234, holder of"},
		{"cannot look", waits, evidence{podsErr: errors.New("connection refused")}, "NotVisible", "connection refused"},
		{"no pod", waits, evidence{}, "NoPod", "component=cloud-controller-manager"},
		{"pod cannot be scheduled", waits, evidence{pods: pods(newPod(unschedulable))}, "PodPending", "untolerated taint"},
		{"no container yet", waits, evidence{pods: pods(newPod(func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Message: "Pod was rejected: Node didn't have enough resource: cpu"}
		}))}, "PodPending", "enough resource"},
		{"image", waits, evidence{pods: pods(newPod(waiting("ImagePullBackOff", "not found")))}, "ImagePull", "image ghcr.io/ccmadm/ccm:v9 of pod cloud-controller-manager-cp1 cannot be pulled: not found"},
		{"secret missing", waits, evidence{pods: pods(newPod(waiting("CreateContainerConfigError", `secret "x" not found`)))}, "PodWaiting", `CreateContainerConfigError: secret "x" not found`},
		{"stopped", waits, evidence{pods: pods(newPod(func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}}
		})), logs: logged("the end")}, "PodTerminated", "exit code 137 (OOMKilled); its last word: the end"},
		{"crashing", waits, evidence{pods: pods(newPod(crashed)), logs: logged("starting", "F1121 could not init cloud provider")}, "CrashLoop", "(restarts: 7), last with exit code 1 (Error); its last word: F1121 could not init"},
		{"terminating", waits, evidence{pods: pods(newPod(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }))}, "PodTerminating", "is being deleted"},
		{"one crashes, another runs", waits, evidence{pods: pods(newPod(crashed), newPod()), lease: live}, "NotServed", "cp1_1234"},
		{"nobody leads", waits, evidence{pods: pods(newPod()), leaseName: v1alpha1.LeaseName, logs: logged("E1121 leases is forbidden")}, "NoLeader", "nobody holds Lease/kube-system/cloud-controller-manager; its last word: E1121 leases is forbidden"},
		{"the leader is gone", waits, evidence{pods: pods(newPod()), lease: stale, leaseName: v1alpha1.LeaseName}, "NoLeader", "cp9_1234, holder of Lease/kube-system/cloud-controller-manager, has not renewed it for 3m0s"},
		{"the manager fails", waits, evidence{pods: pods(newPod()), lease: live, logs: logged("E1121 error syncing 'w1': no address", "I1121 w1 seen", "I1121 other")}, "ManagerFails", "error syncing 'w1': no address"},
		{"the manager has no node controller", waits, evidence{pods: pods(newPod()), lease: live, logs: logged(`E1121 12:00:00.000000       1 controllermanager.go:311] failed to start cloud node controller: cloud provider does not support instances`, "I1121 became leader")}, "NoNodeController", "or knows no nodes: failed to start cloud node controller: cloud provider"},
		{"a reason at the end of a long line", waits, evidence{pods: pods(newPod()), lease: live, logs: logged("E1121 error syncing 'w1': " + strings.Repeat("x", 500) + " api error UnauthorizedOperation")}, "ManagerFails", "UnauthorizedOperation"},
		{"the manager rejects node-ip", waits, evidence{pods: pods(newPod()), lease: live, logs: logged(`E1121 provided node ip for node "w1" is not valid`)}, "NodeIPUnknown", "is not among the addresses"},
		{"node-ip is not an address", newNode("w1", unresolved, tainted, func(n *corev1.Node) { n.Annotations[v1alpha1.ProvidedNodeIPAnnotation] = "198.18.0.11,10.0.0.9" }), evidence{pods: pods(newPod()), lease: live}, "NodeIPUnknown", "--node-ip 10.0.0.9 is not"},
		{"initialized without address", newNode("w1", unaddressed), evidence{pods: pods(newPod()), lease: live, logs: logged(`E1121 nodes/status "w1" is forbidden`)}, "NoInternalIP", `nodes/status "w1" is forbidden`},
		{"not ready", newNode("w1", notReadyYet), evidence{}, "NotReady", "cni plugin not initialized"},
		{"no condition", newNode("w1", func(n *corev1.Node) { n.Status.Conditions = nil }), evidence{}, "NotReady", "has not reported"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.e.now = now
			got := causeOf(StatusOf("w1", tt.node, tt.e.lease, now), tt.node, &tt.e)
			if got.Reason != tt.reason || !strings.Contains(got.Message, tt.words) || got.Next == "" {
				t.Errorf("got %+v, want %s with %q and a next step", got, tt.reason, tt.words)
			}
		})
	}
}

func TestLastLine(t *testing.T) {
	const header = "E1121 12:00:00.123456       1 node_controller.go:285] "
	long := "E1121 " + strings.Repeat("ü", 300)
	tests := []struct {
		name  string
		lines []string
		want  string
	}{
		{"nothing", nil, ""},
		{"nothing to the point", []string{"I1121 started"}, ""},
		{"a complaint about the node before a mere mention", []string{"E1121 w1 broken", "I1121 w1 again"}, "E1121 w1 broken"},
		{"a mention before a complaint about something else", []string{"I1121 w1 seen", "E1121 other"}, "I1121 w1 seen"},
		{"without where and when", []string{header + "w1 broken"}, "w1 broken"},
		{"any complaint", []string{"I1121 nodes is forbidden", "I1121 idle"}, "I1121 nodes is forbidden"},
		{"cut between characters", []string{long}, "E1121 " + strings.Repeat("ü", 97) + " ... " + strings.Repeat("ü", 100)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := lastLine(tt.lines, "w1"); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestWaitError(t *testing.T) {
	cause := &Cause{Message: "no pod", Next: "look"}
	e := &WaitError{Until: Addressed, Err: errors.New("deadline")}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		e.Nodes = append(e.Nodes, Status{Node: name, State: Tainted, Cause: cause})
	}
	e.Nodes = append(e.Nodes, Status{Node: "z", State: Absent})
	want := "wait for nodes to be Addressed: a, b, c, d, e and 2 more Tainted: no pod; z Absent"
	if got := e.Error(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if e.Hint() != "look" || !errors.Is(e, e.Err) {
		t.Errorf("hint %q, cause %v", e.Hint(), e.Unwrap())
	}
}
