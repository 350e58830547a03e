package components

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/templates"
)

var now = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.Time{Time: now.Add(-d)} }

// world is a cluster of three control planes and two workers, made by kubeadm, in which all is well.
type world struct {
	pods        []*corev1.Pod
	daemonSets  []*appsv1.DaemonSet
	deployments []*appsv1.Deployment
	logs        map[string][]string
	configured  []string
	Cluster
}

func newWorld() *world {
	w := &world{logs: map[string][]string{}, configured: []string{Proxy, DNS}}
	w.Now, w.Kubeadm, w.PKI = now, true, "/srv/pki"
	w.Skip = func(string) bool { return false }
	w.Listed = func(string) bool { return true }
	w.Faulty = func(node string) bool { return w.Skip(node) }
	for _, name := range []string{"cp1", "cp2", "cp3", "w1", "w2"} {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: ago(time.Hour)}}
		n.Labels = map[string]string{corev1.LabelOSStable: "linux"}
		if strings.HasPrefix(name, "cp") {
			n.Labels[v1alpha1.ControlPlaneLabel] = ""
			for _, component := range Static() {
				p := newPod(component+"-"+name, name)
				p.Labels = map[string]string{v1alpha1.ComponentLabel: component}
				p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
				p.Spec.Containers = []corev1.Container{{Name: component, Command: []string{component, "--service-cluster-ip-range=10.96.0.0/12"}}}
				w.pods = append(w.pods, p)
			}
		}
		w.Nodes = append(w.Nodes, n)
		w.pods = append(w.pods, made(newPod(Proxy+"-"+name, name), daemonSet, Proxy))
	}
	proxy := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.Namespace, Name: Proxy}}
	proxy.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: "linux"}
	proxy.Status.DesiredNumberScheduled, proxy.Status.NumberReady = 5, 5
	dns := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.Namespace, Name: DNS}}
	dns.Spec.Replicas, dns.Status.ReadyReplicas = new(int32(2)), 2
	w.daemonSets, w.deployments = append(w.daemonSets, proxy), append(w.deployments, dns)
	for _, name := range []string{"w1", "w2"} {
		w.pods = append(w.pods, made(newPod("coredns-5d9f-"+name, name), "ReplicaSet", DNS+"-5d9f"))
	}
	for _, name := range []string{ControllerManager, Scheduler} {
		l := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.Namespace, Name: name}}
		l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = new("cp1_1"), new(int32(15))
		l.Spec.RenewTime = &metav1.MicroTime{Time: now.Add(-2 * time.Second)}
		w.Leases = append(w.Leases, l)
	}
	return w
}

func newPod(name, node string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.Namespace, Name: name, CreationTimestamp: ago(time.Hour)}}
	p.Spec.NodeName = node
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: ago(time.Hour)}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	return p
}

func made(p *corev1.Pod, kind, name string) *corev1.Pod {
	p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name}}
	return p
}

// beside is a pod into which a patch of kubeadm's has put a container: such a one is the first.
func beside(p *corev1.Pod) *corev1.Pod {
	if _, is := p.Labels[v1alpha1.ComponentLabel]; !is || len(p.Spec.Containers) == 0 {
		return p
	}
	p = p.DeepCopy()
	p.Spec.Containers = slices.Insert(p.Spec.Containers, 0, corev1.Container{Name: "sidecar", Command: []string{"sidecar"}})
	return p
}

// judgeAll is all that is judged.
func judgeAll(seen *Seen, c Cluster) []finding.Finding {
	return slices.Concat(JudgeKubeadm(seen, c), Judge(seen, c), JudgeServices(seen, c))
}

// judge collects as the lists of a snapshot do, and judges.
func (w *world) judge() string {
	c := Collector{Trim: func(*corev1.Pod) {}}
	for _, p := range w.pods {
		c.Pod(beside(p))
	}
	for _, d := range w.daemonSets {
		c.DaemonSet(d)
	}
	for _, d := range w.deployments {
		c.Deployment(d)
	}
	for _, name := range w.configured {
		c.Configured(name)
	}
	seen := c.Seen(w.Nodes)
	for pod, lines := range w.logs {
		seen.KeepLog(pod, lines)
	}
	var list []string
	for _, f := range judgeAll(seen, w.Cluster) {
		list = append(list, fmt.Sprintf("%s %s", f.ID, f.Object))
	}
	return strings.Join(list, ", ")
}

func (w *world) named(prefix string) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(w.pods), func(p *corev1.Pod) bool { return !strings.HasPrefix(p.Name, prefix) })
}

func (w *world) without(prefix string) {
	w.pods = slices.DeleteFunc(w.pods, func(p *corev1.Pod) bool { return strings.HasPrefix(p.Name, prefix) })
}

func (w *world) crash(prefix string) {
	for _, p := range w.named(prefix) {
		p.Status.Conditions[0].Status, p.Status.Conditions[0].LastTransitionTime = corev1.ConditionFalse, ago(5*time.Second)
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}},
		}}
	}
}

// pending leaves CoreDNS without a Node, since all have a taint.
func (w *world) pending(taint string) {
	w.deployments[0].Status.ReadyReplicas = 0
	for i := range w.Nodes {
		w.Nodes[i].Spec.Taints = []corev1.Taint{{Key: taint, Effect: corev1.TaintEffectNoSchedule}}
	}
	for _, p := range w.named(DNS) {
		p.Spec.NodeName, p.Status.Phase, p.Status.ContainerStatuses = "", corev1.PodPending, nil
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Message: "0/5 nodes are available: 5 node(s) had untolerated taint {" + taint + ": }",
		}}
	}
}

// exit leaves kube-proxy between two starts, with so many restarts.
func (w *world) exit(restarts int32) {
	w.crash(Proxy)
	for _, p := range w.named(Proxy) {
		status := &p.Status.ContainerStatuses[0]
		status.State, status.RestartCount = status.LastTerminationState, restarts
	}
	w.daemonSets[0].Status.NumberReady = 0
}

// lack adds a workload that is no part of kubeadm, and of which pods are not made.
func (w *world) lack(kind string, wanted, ready int32) {
	meta := metav1.ObjectMeta{Namespace: v1alpha1.Namespace, Name: "other"}
	if kind == deployment {
		d := &appsv1.Deployment{ObjectMeta: meta}
		d.Spec.Replicas, d.Status.ReadyReplicas = &wanted, ready
		w.deployments = append(w.deployments, d)
		return
	}
	d := &appsv1.DaemonSet{ObjectMeta: meta}
	d.Status.DesiredNumberScheduled, d.Status.NumberReady = wanted, ready
	w.daemonSets = append(w.daemonSets, d)
}

// row changes a cluster in which all is well, and says what is found.
type row struct {
	name   string
	change func(*world)
	want   string
}

// TestJudge has what people have broken in clusters for which there was no detector.
func TestJudge(t *testing.T) {
	for _, tt := range []row{
		{"all is well", func(*world) {}, ""},
		{"disks of two Nodes are full", func(w *world) {
			for i := range 2 {
				w.Nodes[i].Status.Conditions = append(w.Nodes[i].Status.Conditions,
					corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue, Message: "kubelet has disk pressure"},
					corev1.NodeCondition{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse})
			}
		}, "Q7 Node/cp1, Q7 Node/cp2"},
		{"the disk of a Node was full before it stopped reporting", func(w *world) {
			w.Skip = func(node string) bool { return node == "cp2" }
			w.Nodes[1].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue}}
		}, ""},
		{"kube-proxy selects no Node", func(w *world) {
			d := w.daemonSets[0]
			d.Spec.Template.Spec.NodeSelector, d.Status = map[string]string{"a": "b"}, appsv1.DaemonSetStatus{}
			w.without(Proxy)
		}, "Q1 DaemonSet/kube-system/kube-proxy"},
		{"kube-proxy is deleted", func(w *world) {
			w.daemonSets = nil
			w.without(Proxy)
		}, "Q1 DaemonSet/kube-system/kube-proxy"},
		{"kube-proxy was left out, or deleted with its ConfigMap", func(w *world) {
			w.daemonSets, w.configured = nil, []string{DNS}
			w.without(Proxy)
		}, ""},
		{"kube-router replaces kube-proxy", func(w *world) {
			w.daemonSets[0].Name = "kube-router"
			w.without(Proxy)
		}, ""},
		{"Cilium replaces kube-proxy, in a namespace of its own", func(w *world) {
			w.daemonSets = nil
			w.without(Proxy)
			w.Networks = []nodes.PodNetwork{{Namespace: "cilium", Name: "cilium", Wanted: 5, Ready: 5}}
		}, ""},
		{"Calico's eBPF mode takes kube-proxy away by its nodeSelector", func(w *world) {
			d := w.daemonSets[0]
			d.Spec.Template.Spec.NodeSelector, d.Status = map[string]string{"non-calico": "true"}, appsv1.DaemonSetStatus{}
			w.without(Proxy)
		}, ""},
		{"CoreDNS crashes", func(w *world) {
			w.crash(DNS)
			w.deployments[0].Status.ReadyReplicas = 0
		}, "Q2 Deployment/kube-system/coredns"},
		{"kube-proxy exits again, and is between two starts", func(w *world) { w.exit(3) }, "Q2 DaemonSet/kube-system/kube-proxy"},
		{"kube-proxy exited once", func(w *world) { w.exit(1) }, ""},
		{"CoreDNS is scaled to nothing", func(w *world) {
			w.without(DNS)
			w.deployments[0].Spec.Replicas, w.deployments[0].Status.ReadyReplicas = new(int32(0)), 0
		}, "Q1 Deployment/kube-system/coredns"},
		{
			"kube-controller-manager crashes on one of three", func(w *world) { w.crash(ControllerManager + "-cp2") },
			"Q2 Pod/kube-system/kube-controller-manager-cp2",
		},
		{"the manifest of a scheduler is gone", func(w *world) { w.without(Scheduler + "-cp3") }, "Q1 Node/cp3"},
		{"etcd is elsewhere", func(w *world) {
			w.without(Etcd)
			w.ExternalEtcd = true
		}, ""},
		{"no kubeadm: nothing is known of static pods", func(w *world) {
			w.without(Etcd)
			w.Kubeadm = false
		}, ""},
		{"a quota refuses kube-proxy on a Node", func(w *world) {
			w.without(Proxy + "-w1")
			w.daemonSets[0].Status.NumberReady = 4
			e := corev1.Event{Reason: "FailedCreate", Message: "pods is forbidden: exceeded quota: none", LastTimestamp: ago(time.Minute)}
			e.InvolvedObject = corev1.ObjectReference{Kind: daemonSet, Namespace: v1alpha1.Namespace, Name: Proxy}
			w.Events = append(w.Events, e)
		}, "Q1 DaemonSet/kube-system/kube-proxy"},
		{"another range of Services on one control plane", func(w *world) {
			w.named(APIServer + "-cp2")[0].Spec.Containers[0].Command[1] = "--service-cluster-ip-range=10.0.0.0/16"
		}, "Q4 Node/cp2"},
		{"a flag and its value are two arguments", func(w *world) {
			w.named(APIServer + "-cp2")[0].Spec.Containers[0].Command = []string{APIServer, "--service-cluster-ip-range", "10.96.0.0/12"}
		}, ""},
		{"a worker shows an API server with another range, and a scheduler that fails", func(w *world) {
			for _, component := range []string{APIServer, Scheduler} {
				p := w.named(component + "-cp1")[0].DeepCopy()
				p.Name, p.Spec.NodeName, p.Spec.Containers[0].Command[1] = component+"-w1", "w1", "--service-cluster-ip-range=10.0.0.0/16"
				w.pods = append(w.pods, p)
			}
			w.crash(Scheduler + "-w1")
		}, ""},
		{"a range of Services that kubeadm did not write", func(w *world) {
			w.ServiceSubnet, w.PodSubnet = "10.96.0.0/16", "10.244.0.0/16"
		}, "Q4 Node/cp1, Q4 Node/cp1, Q4 Node/cp1"},
		{"without a range of pods kubeadm gives the controller manager none of Services", func(w *world) {
			w.ServiceSubnet = "10.96.0.0/12"
			for _, p := range w.named(ControllerManager) {
				p.Spec.Containers[0].Command = p.Spec.Containers[0].Command[:1]
			}
		}, ""},
		{"a Node of another operating system has no kube-proxy", func(w *world) {
			w.Nodes[4].Labels[corev1.LabelOSStable] = "windows"
			w.without(Proxy + "-w")
			w.daemonSets[0].Status.DesiredNumberScheduled, w.daemonSets[0].Status.NumberReady = 4, 3
		}, "Q1 DaemonSet/kube-system/kube-proxy"},
		{"no scheduler is active", func(w *world) {
			w.Leases[1].Spec.RenewTime = &metav1.MicroTime{Time: now.Add(-5 * time.Minute)}
		}, "Q3 Lease/kube-system/kube-scheduler"},
		{"schedulers hold no election, and the Lease is of before", func(w *world) {
			w.Leases[1].Spec.RenewTime = &metav1.MicroTime{Time: now.Add(-5 * time.Hour)}
			for _, p := range w.named(Scheduler) {
				templates.OwnContainer(&p.Spec, Scheduler).Command = []string{Scheduler, "--leader-elect=false"}
			}
		}, ""},
		{"a Node that is not Ready has said so", func(w *world) {
			w.without(Proxy + "-w1")
			w.daemonSets[0].Status.NumberReady = 4
			w.Skip = func(node string) bool { return node == "w1" }
		}, ""},
		{"a Node that is new", func(w *world) {
			w.without(Proxy + "-w1")
			w.daemonSets[0].Status.NumberReady = 4
			w.Nodes[3].CreationTimestamp = ago(20 * time.Second)
		}, ""},
		{"pods of a rollout start", func(w *world) {
			p := w.named(Proxy + "-w1")[0]
			p.CreationTimestamp, p.Status.Conditions[0].Status, p.Status.Conditions[0].LastTransitionTime = ago(8*time.Second), corev1.ConditionFalse, ago(8*time.Second)
			w.daemonSets[0].Status.NumberReady = 4
		}, ""},
		{"an agent of storage has no pod on a Node", func(w *world) { w.lack(daemonSet, 5, 4) }, "Q1 DaemonSet/kube-system/other"},
		{"an agent of storage has no pod on a Node that is new", func(w *world) {
			w.lack(daemonSet, 5, 4)
			w.Nodes[4].CreationTimestamp = ago(20 * time.Second)
		}, ""},
		{"a quota refuses the pod of a Deployment", func(w *world) {
			w.lack(deployment, 1, 0)
			e := corev1.Event{Reason: "FailedCreate", Message: "pods is forbidden: exceeded quota: none", LastTimestamp: ago(time.Minute)}
			e.InvolvedObject = corev1.ObjectReference{Kind: "ReplicaSet", Namespace: v1alpha1.Namespace, Name: "other-5d9f"}
			w.Events = append(w.Events, e)
		}, "Q1 Deployment/kube-system/other"},
		{"the pod of a Deployment is about to be made", func(w *world) { w.lack(deployment, 1, 0) }, ""},
		{"an agent of storage crashes", func(w *world) {
			d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.Namespace, Name: "csi"}}
			d.Status.DesiredNumberScheduled = 1
			w.daemonSets = append(w.daemonSets, d)
			w.pods = append(w.pods, made(newPod("csi-x", "w1"), daemonSet, "csi"))
			w.crash("csi-")
		}, "Q2 DaemonSet/kube-system/csi"},
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

// TestJudge_Message has the count, the cause from the log, and what does not work.
func TestJudge_Message(t *testing.T) {
	w := newWorld()
	w.crash(ControllerManager + "-cp2")
	w.logs[ControllerManager+"-cp2"] = []string{"Usage:", "Error: unknown flag: --concurrent-syncs", "maxprocs: Leaving GOMAXPROCS=2"}
	c := Collector{Trim: func(*corev1.Pod) {}}
	for _, p := range w.pods {
		c.Pod(p)
	}
	seen := c.Seen(w.Nodes)
	seen.Logs = w.logs
	if crashed := seen.Crashed(4, w.Nodes, now); len(crashed) != 1 || crashed[0].Name != ControllerManager+"-cp2" {
		t.Fatalf("Crashed() = %d pods", len(crashed))
	}
	got := judgeAll(seen, w.Cluster)
	if len(got) != 1 {
		t.Fatalf("got %d findings", len(got))
	}
	for _, want := range []string{"ready on 2 of 3 control planes", "unknown flag: --concurrent-syncs", "another control plane does its work"} {
		if !strings.Contains(got[0].Message, want) {
			t.Errorf("%q is not in %q", want, got[0].Message)
		}
	}
	if want := "kubectl -n kube-system logs --previous kube-controller-manager-cp2"; got[0].Next != want {
		t.Errorf("next is %q, want %q", got[0].Next, want)
	}
}

// TestWithRefusal: what refuses a pod is shown where it is known; of other words, what is known of the workload.
func TestWithRefusal(t *testing.T) {
	const forbidden = `Error creating: pods "kube-proxy-" is forbidden: `
	for words, want := range map[string]string{
		"exceeded quota: none": "kubectl -n kube-system describe resourcequota none",
		"pod node label selector conflicts with its namespace node label selector": "kubectl -n kube-system describe daemonset kube-proxy",
	} {
		e := corev1.Event{Reason: "FailedCreate", Message: forbidden + words, LastTimestamp: ago(time.Minute)}
		e.InvolvedObject = corev1.ObjectReference{Kind: daemonSet, Namespace: v1alpha1.Namespace, Name: Proxy}
		j := judge{Seen: &Seen{}, Cluster: Cluster{Now: now, Events: []corev1.Event{e}}}
		f := j.withRefusal(finding.Finding{Message: "x"}, &Workload{Kind: daemonSet, Name: Proxy})
		if f.Next != want || !strings.Contains(f.Message, words) {
			t.Errorf("%s: got %s %s", words, f.Message, f.Next)
		}
	}
}
