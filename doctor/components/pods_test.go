package components

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// evicted is a pod of CoreDNS that a kubelet has ended.
func evicted() *corev1.Pod {
	p := made(newPod("coredns-evicted", "w1"), "ReplicaSet", DNS+"-5d9f")
	p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: ephemeral-storage."}
	return p
}

// restarts has a scheduler run now that has ended so long ago, after it ran for so long.
func (w *world) restarts(count int32, ran, before time.Duration) {
	s := &w.named(Scheduler + "-cp2")[0].Status.ContainerStatuses[0]
	s.RestartCount = count
	s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", StartedAt: ago(before + ran), FinishedAt: ago(before)}
}

// TestJudge_Partly: what works with the pods that are ready is not said not to work.
func TestJudge_Partly(t *testing.T) {
	for ready, want := range map[int32]finding.Severity{1: finding.SeverityError, 2: finding.SeverityWarning} {
		w := newWorld()
		w.crash("coredns-5d9f-w1")
		seen := &Seen{Unready: []corev1.Pod{*w.named("coredns-5d9f-w1")[0], *evicted()}}
		seen.Workloads = []Workload{{Kind: deployment, Name: DNS, Wanted: 2, Ready: ready, Observed: true}}
		got := Judge(seen, w.Cluster)
		if len(got) != 1 || got[0].Severity != want || strings.Contains(got[0].Message, "resolve") || strings.Contains(got[0].Message, "more of its pods") {
			t.Errorf("%d of 2 are ready: got %+v", ready, got)
		}
	}
}

// TestJudge_Pods has pods that no list of workloads shows, and those that Nodes keep out.
func TestJudge_Pods(t *testing.T) {
	for _, tt := range []row{
		{"a static pod that kubeadm did not write crashes, and one runs", func(w *world) {
			for _, name := range []string{"haproxy-cp1", "haproxy-cp2"} {
				p := newPod(name, strings.TrimPrefix(name, "haproxy-"))
				p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
				w.pods = append(w.pods, p)
			}
			w.crash("haproxy-cp1")
		}, "Q2 Pod/kube-system/haproxy-cp1"},
		{"a worker shows a static pod that crashes", func(w *world) {
			p := newPod("haproxy-w1", "w1")
			p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
			w.pods = append(w.pods, p)
			w.crash("haproxy")
		}, ""},
		{"the manager is a static pod, and is judged elsewhere", func(w *world) {
			p := newPod("ccm-cp1", "cp1")
			p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
			w.pods, w.Manager = append(w.pods, p), "Pod/kube-system/ccm"
			w.crash("ccm")
		}, ""},
		{"a pod of CoreDNS was evicted, and another one was made", func(w *world) {
			w.pods = append(w.pods, evicted())
		}, ""},
		{"pods of CoreDNS were evicted, and a quota refuses others", func(w *world) {
			w.without(DNS)
			w.pods, w.deployments[0].Status.ReadyReplicas = append(w.pods, evicted()), 0
		}, "Q1 Deployment/kube-system/coredns"},
		{"a scheduler that is ready fails every two minutes", func(w *world) { w.restarts(213, 2*time.Minute, time.Minute) }, "Q2 Pod/kube-system/kube-scheduler-cp2"},
		{"its machine was started again", func(w *world) { w.restarts(213, 30*time.Hour, time.Minute) }, ""},
		{"it failed once", func(w *world) { w.restarts(1, 2*time.Minute, time.Minute) }, ""},
		{"it failed an hour ago", func(w *world) { w.restarts(213, 2*time.Minute, time.Hour) }, ""},
		{"it runs for longer by now", func(w *world) { w.restarts(213, 2*time.Minute, 5*time.Minute) }, ""},
		{"its control plane has joined 10 minutes ago", func(w *world) {
			w.restarts(3, 20*time.Second, 30*time.Second)
			w.Nodes[1].CreationTimestamp = ago(10 * time.Minute)
		}, ""},
		{"its manifest is 10 minutes old", func(w *world) {
			w.restarts(3, 20*time.Second, 30*time.Second)
			w.named(Scheduler + "-cp2")[0].Status.StartTime = new(ago(10 * time.Minute))
		}, ""},
		{"its manifest is an hour old", func(w *world) {
			w.restarts(3, 20*time.Second, 30*time.Second)
			w.named(Scheduler + "-cp2")[0].Status.StartTime = new(ago(time.Hour))
		}, "Q2 Pod/kube-system/kube-scheduler-cp2"},
		{"a StatefulSet crashes", func(w *world) {
			w.pods = append(w.pods, made(newPod("store-0", "w1"), statefulSet, "store"), made(newPod("store-1", "w2"), statefulSet, "store"))
			w.crash("store")
		}, "Q2 StatefulSet/kube-system/store"},
		{"pods wait for Nodes that are not initialized", func(w *world) {
			w.Skip = func(string) bool { return true }
			w.pending(v1alpha1.UninitializedTaint)
		}, ""},
		{"a taint of Nodes that are Ready keeps pods out", func(w *world) {
			w.pending(corev1.TaintNodeOutOfService)
		}, "Q2 Deployment/kube-system/coredns"},
		{"a taint of a Node that is not Ready, and one of Nodes that are", func(w *world) {
			w.Skip = func(node string) bool { return node == "cp1" }
			w.pending(corev1.TaintNodeOutOfService)
			w.Nodes[0].Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady}}
			for _, p := range w.named(DNS) {
				p.Status.Conditions[0].Message += ", 1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }"
			}
		}, "Q2 Deployment/kube-system/coredns"},
		{"Nodes that are Ready have just got the taint", func(w *world) {
			w.pending(corev1.TaintNodeNetworkUnavailable)
			for i := range w.Nodes {
				w.Nodes[i].Spec.Taints[0].TimeAdded = new(ago(20 * time.Second))
			}
		}, ""},
		{"Nodes have just lost the taint", func(w *world) {
			w.pending(corev1.TaintNodeNotReady)
			for i := range w.Nodes {
				w.Nodes[i].Spec.Taints = nil
			}
		}, ""},
		{"the disk of a Node is full", func(w *world) {
			w.pending(corev1.TaintNodeDiskPressure)
			w.Nodes[0].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue}}
		}, "Q7 Node/cp1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.change(w)
			if got := w.judge(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestJudge_Rollout: pods that are there are not told to be lacking.
func TestJudge_Rollout(t *testing.T) {
	for _, tt := range []row{
		{"the status of an agent of storage is behind its pods", func(w *world) {
			w.lack(daemonSet, 5, 4)
			for _, n := range w.Nodes {
				w.pods = append(w.pods, made(newPod("other-"+n.Name, n.Name), daemonSet, "other"))
			}
		}, ""},
		{"a rollout to more Nodes than pods are kept", func(w *world) {
			w.lack(daemonSet, 200, 100)
			for i := range 100 {
				p := made(newPod(fmt.Sprint("other-", i), "w1"), daemonSet, "other")
				p.CreationTimestamp, p.Status.Conditions[0].Status, p.Status.Conditions[0].LastTransitionTime = ago(8*time.Second), corev1.ConditionFalse, ago(8*time.Second)
				if i%2 > 0 {
					p.Spec.NodeName = "" // the scheduler is about to place it
				}
				w.pods = append(w.pods, p)
			}
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.change(w)
			if got := w.judge(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestJudge_Unready: of a pod that runs and is not ready, what its probe and its log say is quoted.
func TestJudge_Unready(t *testing.T) {
	w := newWorld()
	p := w.named("coredns-5d9f-w1")[0]
	p.Status.Conditions[0].Status = corev1.ConditionFalse
	w.Events = []corev1.Event{{
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name}, Type: corev1.EventTypeWarning,
		Reason: "Unhealthy", Message: "Readiness probe failed: HTTP probe failed with statuscode: 503", LastTimestamp: ago(time.Minute),
	}}
	seen := &Seen{Unready: []corev1.Pod{*p}, Workloads: []Workload{{Kind: deployment, Name: DNS, Wanted: 2, Ready: 1, Observed: true}}}
	if read := seen.Crashed(4, w.Nodes, now); len(read) != 0 {
		t.Errorf("the log of a pod is read on a Node that is not Ready")
	}
	for i := range w.Nodes {
		w.Nodes[i].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	if read := seen.Crashed(4, w.Nodes, now); len(read) != 1 || len(seen.Crashed(4, w.Nodes, p.CreationTimestamp.Time)) != 0 {
		t.Errorf("the logs of %d pods are read", len(read))
	}
	seen.KeepLog(p.Name, []string{"[ERROR] plugin/kubernetes: Failed to watch: dial tcp 10.96.0.1:443: i/o timeout", "[INFO] still waiting"})
	got := Judge(seen, w.Cluster)
	if want := "fails; its last warning is Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 503; the last error of its log: " +
		"[ERROR] plugin/kubernetes: Failed to watch: dial tcp 10.96.0.1:443: i/o timeout"; len(got) != 1 || !strings.Contains(got[0].Message, want) {
		t.Errorf("got %+v, want %q", got, want)
	}
}
