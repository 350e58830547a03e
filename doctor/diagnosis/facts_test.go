package diagnosis

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// taken is when the tests' snapshots were.
var taken = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.Time{Time: taken.Add(-d)} }

// cloud has a provider that is in the catalogue; its Lease has the usual name.
const cloud = "aws"

// newSnapshot is of a healthy cluster: a control plane and workers that are Ready, and a manager that leads.
func newSnapshot(mode templates.Mode, workers int, changes ...func(*Snapshot)) *Snapshot {
	s := &Snapshot{Taken: taken, Version: "v1.36.3", DNS: DNS{2, 2}}
	s.APIVersion, s.Kind = APIVersion, Kind
	s.Nodes = append(s.Nodes, node("cp1"))
	s.Nodes[0].Labels[v1alpha1.ControlPlaneLabel] = ""
	s.Nodes[0].Spec.Taints = []corev1.Taint{{Key: v1alpha1.ControlPlaneLabel, Effect: corev1.TaintEffectNoSchedule}}
	for i := range workers {
		s.Nodes = append(s.Nodes, node(fmt.Sprintf("w%d", i+1)))
	}
	for i := range s.Nodes {
		s.Nodes[i].Status.Addresses[0].Address = fmt.Sprintf("198.18.0.%d", 10+i)
	}
	for _, n := range s.Nodes {
		s.Heartbeats = append(s.Heartbeats, lease(corev1.NamespaceNodeLease, n.Name, n.Name, 5*time.Second))
	}
	s.Leases = []coordinationv1.Lease{lease(v1alpha1.Namespace, v1alpha1.LeaseName, "cp1_8c1b", time.Second)}
	p := pod("ccm-x7k2p", "cp1")
	switch mode {
	case templates.DaemonSet:
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "ccm"}}
		d := appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.Namespace, Name: "ccm"}}
		d.Spec.Template.Spec, d.Status.DesiredNumberScheduled = p.Spec, 1
		d.Spec.Template.Spec.NodeName = ""
		s.DaemonSets = []appsv1.DaemonSet{d}
	case templates.Deployment:
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "ccm-5d9f"}}
		d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.Namespace, Name: "ccm"}}
		d.Spec.Template.Spec = p.Spec
		d.Spec.Template.Spec.NodeName = ""
		s.Deployments = []appsv1.Deployment{d}
	default:
		p.Name, p.Annotations = "cloud-controller-manager-cp1", map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	}
	s.Pods = []corev1.Pod{p}
	for _, change := range changes {
		change(s)
	}
	return s
}

// node is one that is Ready.
func node(name string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, CreationTimestamp: ago(time.Hour), Annotations: map[string]string{},
		Labels: map[string]string{corev1.LabelTopologyZone: "a"},
	}}
	n.Spec.ProviderID = "aws:///a/i-" + name
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "198.18.0.10"}}
	n.Status.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: "v1.36.3", MachineID: "machine-of-" + name, SystemUUID: "uuid-of-" + name}
	n.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: ago(time.Hour), LastHeartbeatTime: ago(time.Minute),
	}}
	return n
}

func lease(namespace, name, holder string, renewed time.Duration) coordinationv1.Lease {
	l := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: ago(time.Hour)}}
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = &holder, new(int32(40))
	l.Spec.RenewTime = &metav1.MicroTime{Time: taken.Add(-renewed)}
	return l
}

// pod is a manager's that runs.
func pod(name, node string) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.Namespace, Name: name, Labels: map[string]string{"app": "ccm"}}}
	p.Spec = corev1.PodSpec{
		NodeName: node, HostNetwork: true, DNSPolicy: corev1.DNSDefault, ServiceAccountName: "ccm",
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Containers: []corev1.Container{{
			Name: "ccm", Image: "registry.k8s.io/provider-aws/cloud-controller-manager:v1.36.0", Args: []string{"--cloud-provider=" + cloud},
		}},
	}
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "ccm", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return p
}

// The faults that tests make.

// tainted is what all Nodes but the control plane, or all, are before they are initialized.
func tainted(s *Snapshot) {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		n.Spec.ProviderID = ""
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: v1alpha1.UninitializedTaint, Effect: corev1.TaintEffectNoSchedule})
	}
}

func leaderless(s *Snapshot) { s.Leases = nil }

func logged(lines ...string) func(*Snapshot) {
	return func(s *Snapshot) { s.Logs = map[string][]string{s.Pods[0].Name: lines} }
}

func waiting(reason, message string) func(*Snapshot) {
	return func(s *Snapshot) {
		state := &s.Pods[0].Status.ContainerStatuses[0]
		state.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
		if reason == "CrashLoopBackOff" {
			state.RestartCount = 4
			state.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}
		}
	}
}

// unplaced has the manager's pod wait for a Node, which no toleration lets it have.
func unplaced(tolerations ...corev1.Toleration) func(*Snapshot) {
	return func(s *Snapshot) {
		p := &s.Pods[0]
		p.Spec.NodeName, p.Spec.Tolerations = "", tolerations
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available: 3 node(s) had untolerated taint(s)",
		}}}
		for i := range s.Deployments {
			s.Deployments[i].Spec.Template.Spec.Tolerations = tolerations
		}
	}
}

func tolerates(key string) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists}
}

func event(name, reason, message string) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Events = append(s.Events, corev1.Event{
			InvolvedObject: corev1.ObjectReference{Namespace: v1alpha1.Namespace, Name: name}, Reason: reason, Message: message,
			LastTimestamp: ago(time.Minute),
		})
	}
}

func service(name string, age time.Duration, changes ...func(*corev1.Service)) func(*Snapshot) {
	return func(s *Snapshot) {
		svc := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: ago(age)}}
		svc.Spec.Type = corev1.ServiceTypeLoadBalancer
		for _, change := range changes {
			change(&svc)
		}
		s.Services = append(s.Services, svc)
	}
}

func deleted(svc *corev1.Service) {
	svc.DeletionTimestamp, svc.Finalizers = new(ago(time.Hour)), []string{v1alpha1.LoadBalancerFinalizer}
}

// without is what is left of a snapshot where something could not be asked for.
func without(parts ...string) func(*Snapshot) {
	return func(s *Snapshot) {
		for _, what := range parts {
			s.NotSeen = append(s.NotSeen, NotSeen{What: what, Reason: metav1.StatusReasonForbidden, Message: what + " is forbidden"})
			switch what {
			case partPods:
				s.Pods = nil
			case partNodes:
				s.Nodes = nil
			case partHeartbeats:
				s.Heartbeats = nil
			case partLeases:
				s.Leases = nil
			case partDeployments:
				s.Deployments = nil
			}
		}
	}
}
