package nodes

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

func newPod(changes ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "cloud-controller-manager-cp1"},
		Spec:       corev1.PodSpec{NodeName: "cp1"},
	}
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
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
		}
	}
}

func crashed(p *corev1.Pod) {
	waiting("CrashLoopBackOff", "back-off 5m0s")(p)
	p.Status.ContainerStatuses[0].RestartCount = 7
	p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
		ExitCode: 1,
		Reason:   "Error",
	}
}

func unschedulable(p *corev1.Pod) {
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{
			Type:    corev1.PodScheduled,
			Status:  corev1.ConditionFalse,
			Message: "0/1 nodes are available: 1 node(s) had untolerated taint(s)",
		},
	}}
}

func rejected(p *corev1.Pod) {
	p.Status = corev1.PodStatus{
		Phase:   corev1.PodFailed,
		Message: "Pod was rejected: Node didn't have enough resource: cpu",
	}
}

func killed(p *corev1.Pod) {
	p.Status.ContainerStatuses[0].State = corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"},
	}
}

func deleted(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} }

// sidecar puts a container that runs in front, and leaves the manager's to what comes next.
func sidecar(p *corev1.Pod) {
	main := p.Status.ContainerStatuses[0]
	proxy := main
	proxy.Name = "proxy"
	p.Status.ContainerStatuses = []corev1.ContainerStatus{main, proxy}
}

func provided(ips string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Annotations[v1alpha1.ProvidedNodeIPAnnotation] = ips }
}

func goneSilent(n *corev1.Node) {
	n.Status.Conditions[0].Status = corev1.ConditionUnknown
	n.Status.Conditions[0].LastHeartbeatTime.Time = time.Date(2026, 11, 21, 9, 59, 0, 0, time.UTC)
}

func TestCauseOf(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	nobody := leadership{name: v1alpha1.LeaseName}
	live, stale := nobody, nobody
	live.lease = newLease("cp1_1234", now.Add(-2*time.Second))
	stale.lease = newLease("cp9_1234", now.Add(-3*time.Minute))
	waits := newNode("w1", unresolved, tainted)
	logged := func(lines ...string) map[string][]string {
		return map[string][]string{"cloud-controller-manager-cp1": lines}
	}
	pods := func(p ...corev1.Pod) []corev1.Pod { return p }
	noPods := apierrors.NewForbidden(corev1.Resource("pods"), "", nil)
	tests := []struct {
		name   string
		node   *corev1.Node
		e      evidence
		reason string
		words  string
	}{
		{
			name:   "absent",
			reason: "NodeAbsent",
			words:  "has not registered",
		},
		{
			name:   "never tainted",
			node:   newNode("w1", unresolved),
			reason: "NeverTainted",
			words:  "--cloud-provider=external",
		},
		{
			name:   "may not look",
			node:   waits,
			e:      evidence{podsErr: noPods},
			reason: "NotVisible",
			words:  "a worker's kubelet may not",
		},
		{
			name:   "may look at the lease only",
			node:   waits,
			e:      evidence{podsErr: noPods, leader: stale},
			reason: "NotVisible",
			words:  "cp9_1234, holder of",
		},
		{
			name:   "cannot look",
			node:   waits,
			e:      evidence{podsErr: errors.New("connection refused")},
			reason: "NotVisible",
			words:  "connection refused",
		},
		{
			name:   "no pod",
			node:   waits,
			e:      evidence{leader: nobody},
			reason: "NoPod",
			words:  "component=cloud-controller-manager",
		},
		{
			name:   "no pod of that label, and somebody leads",
			node:   waits,
			e:      evidence{leader: live},
			reason: "NotServed",
			words:  "its pods lack the label",
		},
		{
			name:   "pod cannot be scheduled",
			node:   waits,
			e:      evidence{pods: pods(newPod(unschedulable))},
			reason: "PodPending",
			words:  "untolerated taint",
		},
		{
			name:   "no container yet",
			node:   waits,
			e:      evidence{pods: pods(newPod(rejected))},
			reason: "PodPending",
			words:  "enough resource",
		},
		{
			name:   "image",
			node:   waits,
			e:      evidence{pods: pods(newPod(waiting("ImagePullBackOff", "not found")))},
			reason: "ImagePull",
			words:  "image ghcr.io/ccmadm/ccm:v9 of pod cloud-controller-manager-cp1 cannot be pulled: not found",
		},
		{
			name:   "secret missing",
			node:   waits,
			e:      evidence{pods: pods(newPod(waiting("CreateContainerConfigError", `secret "x" not found`)))},
			reason: "PodWaiting",
			words:  `CreateContainerConfigError: secret "x" not found`,
		},
		{
			name:   "stopped",
			node:   waits,
			e:      evidence{pods: pods(newPod(killed)), logs: logged("the end")},
			reason: "PodTerminated",
			words:  "exit code 137 (OOMKilled); the last line of its log: the end",
		},
		{
			name: "crashing",
			node: waits,
			e: evidence{
				pods: pods(newPod(crashed)),
				logs: logged("starting", "F1121 could not init cloud provider"),
			},
			reason: "CrashLoop",
			words:  "(restarts: 7), last with exit code 1 (Error); the last line of its log: F1121 could not init",
		},
		{
			name:   "the second container crashes",
			node:   waits,
			e:      evidence{pods: pods(newPod(sidecar, crashed)), logs: logged("starting", "F1121 no cloud")},
			reason: "CrashLoop",
			words:  "the last line of its log: F1121 no cloud",
		},
		{
			name:   "terminating",
			node:   waits,
			e:      evidence{pods: pods(newPod(deleted))},
			reason: "PodTerminating",
			words:  "is being deleted",
		},
		{
			name:   "one crashes, another runs",
			node:   waits,
			e:      evidence{pods: pods(newPod(crashed), newPod()), leader: live},
			reason: "NotServed",
			words:  "cp1_1234",
		},
		{
			name:   "nobody leads",
			node:   waits,
			e:      evidence{pods: pods(newPod()), leader: nobody, logs: logged("E1121 no route to host")},
			reason: "NoLeader",
			words:  "Lease/kube-system/cloud-controller-manager has no holder; its last error: E1121 no route to host",
		},
		{
			name:   "the leader is gone",
			node:   waits,
			e:      evidence{pods: pods(newPod()), leader: stale},
			reason: "NoLeader",
			words:  "cp9_1234, holder of Lease/kube-system/cloud-controller-manager, has not renewed it for 3m0s",
		},
		{
			name:   "the lease cannot be looked at",
			node:   waits,
			e:      evidence{pods: pods(newPod()), leader: leadership{name: "x", err: errors.New("timed out")}},
			reason: "LeaseUnknown",
			words:  "Lease/kube-system/x cannot be read: timed out",
		},
		{
			name: "a certificate that has expired",
			node: waits,
			e: evidence{
				pods:   pods(newPod()),
				leader: stale,
				logs: logged(
					`I1121 10:00:00.000000 1 permissions.go:66] "Waiting for the API server" missing="ask for permissions: Unauthorized"`,
				),
			},
			reason: "Unauthorized",
			words:  "does not accept the cloud-controller-manager's credentials",
		},
		{
			name: "a certificate that expires while it leads",
			node: waits,
			e: evidence{
				pods:   pods(newPod(crashed)),
				leader: stale,
				logs: logged(
					`E1121 error retrieving resource lock kube-system/cloud-controller-manager: Unauthorized`,
					"F1121 leaderelection lost",
				),
			},
			reason: "Unauthorized",
			words:  "resource lock",
		},
		{
			name: "the same, as client-go 0.37 says it",
			node: waits,
			e: evidence{
				pods:   pods(newPod(crashed)),
				leader: stale,
				logs: logged(
					`E1121 10:00:00.000000 1 leaderelection.go:473] "Error retrieving lease lock" err="Unauthorized" lock="kube-system/cloud-controller-manager"`,
					"F1121 leaderelection lost",
				),
			},
			reason: "Unauthorized",
			words:  "lease lock",
		},
		{
			name: "credentials that were accepted again, as client-go 0.37 says it",
			node: waits,
			e: evidence{
				pods:   pods(newPod()),
				leader: stale,
				logs:   logged("E1121 failed to list *v1.Node: Unauthorized", `I1121 "Successfully acquired lease" lock="kube-system/x"`),
			},
			reason: "NoLeader",
			words:  "has not renewed it",
		},
		{
			name: "a cloud's own 401 is not the API server's",
			node: waits,
			e: evidence{
				pods:   pods(newPod()),
				leader: live,
				logs:   logged("E1121 error syncing 'w1': POST https://api.cloud: 401 Unauthorized"),
			},
			reason: "ManagerFails",
			words:  "401 Unauthorized",
		},
		{
			name: "credentials that were renewed",
			node: waits,
			e: evidence{
				pods:   pods(newPod()),
				leader: stale,
				logs:   logged(`E1121 failed to list *v1.Node: Unauthorized`, "I1121 successfully acquired lease kube-system/x"),
			},
			reason: "NoLeader",
			words:  "has not renewed it",
		},
		{
			name: "a permission that every manager needs",
			node: waits,
			e: evidence{
				pods:   pods(newPod()),
				leader: nobody,
				denied: []permission{{verb: "watch", resource: "nodes"}},
			},
			reason: "MissingPermission",
			words:  "may not watch nodes",
		},
		{
			name: "permissions for the Lease, and somebody leads",
			node: waits,
			e: evidence{
				pods:   pods(newPod()),
				leader: live,
				denied: []permission{
					{
						verb:      "get",
						group:     "coordination.k8s.io",
						resource:  "leases",
						namespace: "kube-system",
						name:      "cloud-controller-manager",
					},
				},
			},
			reason: "MissingPermission",
			words:  "get leases.coordination.k8s.io in namespace kube-system",
		},
		{
			name: "a crash for a missing permission",
			node: waits,
			e: evidence{
				pods:   pods(newPod(crashed)),
				leader: nobody,
				denied: []permission{{verb: "list", resource: "nodes"}},
			},
			reason: "MissingPermission",
			words:  "may not list nodes",
		},
		{
			name: "a permission of the provider's",
			node: waits,
			e: evidence{
				pods:   pods(newPod()),
				leader: live,
				denied: []permission{{verb: "get", resource: "secrets", namespace: "kube-system"}},
				logs:   logged("E1121 w1: cannot read credentials"),
			},
			reason: "MissingPermission",
			words:  "may not get secrets in namespace kube-system",
		},
		{
			name: "events are not what a node waits for",
			node: waits,
			e: evidence{
				pods:   pods(newPod()),
				leader: live,
				denied: []permission{{verb: "create", resource: "events"}},
				logs:   logged("E1121 w1: cloud says no"),
			},
			reason: "ManagerFails",
			words:  "cloud says no",
		},
		{
			name: "the manager fails",
			node: waits,
			e: evidence{
				pods:   pods(newPod()),
				leader: live,
				logs:   logged("E1121 error syncing 'w1': no address", "I1121 w1 seen", "I1121 other"),
			},
			reason: "ManagerFails",
			words:  "error syncing 'w1': no address",
		},
		{
			name: "a complaint about another node",
			node: waits,
			e: evidence{
				pods:   pods(newPod()),
				leader: live,
				logs:   logged("E1121 error syncing 'w10': no address"),
			},
			reason: "NotServed",
			words:  "do not mention this node; its last error is: E1121 error syncing 'w10'",
		},
		{
			name:   "a mention that is no error",
			node:   waits,
			e:      evidence{pods: pods(newPod()), leader: live, logs: logged("I1121 w1 seen")},
			reason: "NotServed",
			words:  "the last line of its log about this node is no error: I1121 w1 seen",
		},
		{
			name: "the manager has no node controller",
			node: waits,
			e: evidence{
				pods:   pods(newPod()),
				leader: live,
				logs: logged(
					`E1121 12:00:00.000000       1 controllermanager.go:311] failed to start cloud node controller: cloud provider does not support instances`,
					"I1121 became leader",
				),
			},
			reason: "NoNodeController",
			words:  "or has no instances: failed to start cloud node controller: cloud provider",
		},
		{
			name: "a reason at the end of a long line",
			node: waits,
			e: evidence{
				pods:   pods(newPod()),
				leader: live,
				logs:   logged("E1121 error syncing 'w1': " + strings.Repeat("x", 500) + " api error UnauthorizedOperation"),
			},
			reason: "ManagerFails",
			words:  "UnauthorizedOperation",
		},
		{
			name: "escape sequences in a log",
			node: waits,
			e: evidence{
				pods:   pods(newPod()),
				leader: live,
				logs:   logged("E1121 error syncing 'w1': \x1b[2Jno"),
			},
			reason: "ManagerFails",
			words:  "error syncing 'w1': no",
		},
		{
			name: "the manager rejects node-ip",
			node: waits,
			e: evidence{
				pods:   pods(newPod()),
				leader: live,
				logs:   logged(`E1121 provided node ip for node "w1" is not valid`),
			},
			reason: "NodeIPUnknown",
			words:  "is not among the addresses",
		},
		{
			name: "the manager rejects another node's node-ip",
			node: waits,
			e: evidence{
				pods:   pods(newPod()),
				leader: live,
				logs:   logged(`E1121 provided node ip for node "w12" is not valid`),
			},
			reason: "NotServed",
			words:  "do not mention this node",
		},
		{
			name:   "node-ip is not an address",
			node:   newNode("w1", unresolved, tainted, provided("198.18.0.11,10.0.0.9")),
			e:      evidence{pods: pods(newPod()), leader: live},
			reason: "NodeIPUnknown",
			words:  "--node-ip 10.0.0.9 is not",
		},
		{
			name: "initialized without address",
			node: newNode("w1", unaddressed),
			e: evidence{
				pods:   pods(newPod()),
				leader: live,
				logs:   logged(`E1121 nodes/status "w1" is forbidden`),
			},
			reason: "NoInternalIP",
			words:  `nodes/status "w1" is forbidden`,
		},
		{
			name: "initialized, and may not write addresses",
			node: newNode("w1", unaddressed),
			e: evidence{
				pods:   pods(newPod()),
				leader: live,
				denied: []permission{{verb: "patch", resource: "nodes", subresource: "status"}},
			},
			reason: "MissingPermission",
			words:  "may not patch nodes/status",
		},
		{
			name:   "not ready",
			node:   newNode("w1", notReadyYet),
			reason: "NotReady",
			words:  "cni plugin not initialized",
		},
		{
			name:   "a kubelet that has gone silent",
			node:   newNode("w1", goneSilent),
			reason: "KubeletSilent",
			words:  "has stopped posting its status, last at 2026-11-21T09:59:00Z",
		},
		{
			name:   "no condition",
			node:   newNode("w1", func(n *corev1.Node) { n.Status.Conditions = nil }),
			reason: "NotReady",
			words:  "has not reported",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.e.now = now
			got := causeOf(StatusOf("w1", tt.node, tt.e.led(), now), tt.node, &tt.e)
			if got.Reason != tt.reason || !strings.Contains(got.Message, tt.words) || got.Do == "" || got.Next == got.Do {
				t.Errorf("got %s %q, next %q, want %s with %q", got.Reason, got.Message, got.Next, tt.reason, tt.words)
			}
			if got.ID == "" || got.Why == "" || got.Object != "Node/w1" {
				t.Errorf("got %+v, want an entry of the catalogue, about the node", got)
			}
		})
	}
}

func TestLastRemark(t *testing.T) {
	const header = "E1121 12:00:00.123456       1 node_controller.go:285] "
	long := "E1121 w1 " + strings.Repeat("ü", 300)
	tests := []struct {
		name  string
		lines []string
		want  remark
	}{
		{
			name: "nothing",
		},
		{
			name:  "nothing to the point",
			lines: []string{"I1121 started"},
		},
		{
			name:  "a complaint about the node before a mere mention",
			lines: []string{"E1121 w1 broken", "I1121 w1 again"},
			want:  remark{line: "E1121 w1 broken", about: true, complains: true},
		},
		{
			name:  "a mention before a complaint about something else",
			lines: []string{"I1121 w1 seen", "E1121 other"},
			want:  remark{line: "I1121 w1 seen", about: true},
		},
		{
			name:  "without where and when",
			lines: []string{header + "w1 broken"},
			want:  remark{line: "w1 broken", about: true, complains: true},
		},
		{
			name:  "an unhandled error without its wrapping",
			lines: []string{header + `"Unhandled Error" err="error syncing 'w1': \"x\" denied, requeuing" logger="UnhandledError"`},
			want:  remark{line: `error syncing 'w1': "x" denied, requeuing`, about: true, complains: true},
		},
		{
			name:  "any complaint",
			lines: []string{"I1121 nodes is forbidden", "I1121 idle"},
			want:  remark{line: "I1121 nodes is forbidden", complains: true},
		},
		{
			name:  "a line that starts with an E is no error",
			lines: []string{"Everything is fine", "For w2: nothing"},
		},
		{
			name:  "cut between characters",
			lines: []string{long},
			want: remark{
				line:  strings.ToValidUTF8(long[:200]+" ... "+long[len(long)-200:], ""),
				about: true, complains: true,
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := lastRemark(tt.lines, "w1"); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestMentions(t *testing.T) {
	tests := []struct {
		line, node string
		want       bool
	}{
		{"error syncing 'w1': no", "w1", true},
		{`node="w1" is gone`, "w1", true},
		{"Node/w1", "w1", true},
		{"w1", "w1", true},
		{"nothing known of w1.", "w1", true},
		{"nothing known of w1. Again", "w1", true},
		{"error syncing 'w10': no", "w1", false},
		{"error syncing 'w1.example.com': no", "w1", false},
		{"error syncing 'my-w1': no", "w1", false},
		{"error syncing 'w1-b': no", "w1", false},
		{"error syncing 'w10', then 'w1'", "w1", true},
		{"error syncing 'a.w1'", "w1", false},
		{"error syncing 'w1.example.com': no", "w1.example.com", true},
		{"anything", "", false},
	}
	for _, tt := range tests {
		if got := mentions(tt.line, tt.node); got != tt.want {
			t.Errorf("%q mentions %q: got %v, want %v", tt.line, tt.node, got, tt.want)
		}
	}
}

func TestWaitError(t *testing.T) {
	noPod := finding.NoPod.New("", "no pod")
	noPod.Next = "look"
	absent := finding.NodeAbsent.New("", "no such Node")
	absent.Next = "ask"
	e := &WaitError{Until: Addressed, Err: errors.New("deadline")}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		e.Nodes = append(e.Nodes, Status{Node: name, State: Tainted, Cause: &noPod})
	}
	if got := e.Hint(); got != "look" {
		t.Errorf("got hint %q for one trouble", got)
	}
	e.Nodes = append(e.Nodes, Status{Node: "z", State: Absent, Cause: &absent})
	want := "wait for nodes to be Addressed: a, b, c, d, e and 2 more Tainted: no pod\nz Absent: no such Node"
	if got := e.Error(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if want := "a, b, c, d, e and 2 more: look\nz: ask"; e.Hint() != want || !errors.Is(e, e.Err) {
		t.Errorf("got hint %q, cause %v, want %q", e.Hint(), e.Unwrap(), want)
	}
}
