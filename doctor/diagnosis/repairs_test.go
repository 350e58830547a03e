package diagnosis

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// TestDiagnose_BeforeANodeWaits is about what the fault library of test/e2e injects into clusters whose Nodes are all
// Ready: nothing waits, and something is wrong.
func TestDiagnose_BeforeANodeWaits(t *testing.T) {
	replicas := func(n int32) func(*Snapshot) {
		return func(s *Snapshot) { s.Pods, s.Deployments[0].Spec.Replicas = nil, &n }
	}
	tests := []struct {
		name    string
		changes []func(*Snapshot)
		want    string
	}{
		{"a permission for Nodes", []func(*Snapshot){denied("patch", "", "nodes")}, "D8(1)"},
		{"a permission for Services", []func(*Snapshot){denied("watch", "", "services")}, "D9(1)"},
		{"one for Services explains what waits for them", []func(*Snapshot){denied("watch", "", "services"), service("web", time.Hour)}, "D9(1)>G1(1)"},
		{"one for Events explains no silence", []func(*Snapshot){denied("create", "", "events"), stale}, "W7(1) D10(1)"},
		{"one to renew the Lease that is held", []func(*Snapshot){denied("update", "coordination.k8s.io", "leases")}, "D6(1)"},
		{"one to make the Lease that is held", []func(*Snapshot){denied("create", "coordination.k8s.io", "leases")}, ""},
		{"of somebody else, perhaps", []func(*Snapshot){denied("list", "", "nodes"), args("--kubeconfig=/etc/ccm.conf")}, ""},
		{"no replicas", []func(*Snapshot){leaderless, replicas(0)}, "W27(1)>W20(1)"},
		{"no replicas, and somebody leads", []func(*Snapshot){replicas(0)}, ""},
		{"a file of the machine", []func(*Snapshot){
			leaderless, waiting("ContainerCreating", ""), event("ccm-x7k2p", "FailedMount",
				`MountVolume.SetUp failed for volume "k" : hostPath type check failed: /etc/kubernetes/cloud-controller-manager.conf is not a file`),
		}, "W28(1)>W24(1)"},
		{"what was installed is gone", []func(*Snapshot){stale, func(s *Snapshot) { s.Provider, s.Mode, s.Pods, s.Deployments = "aws", "Deployment", nil, nil }}, "W20(1)>W13(1)"},
		{"nobody leads, and nothing was installed by us", []func(*Snapshot){stale, func(s *Snapshot) { s.Pods, s.Deployments = nil, nil }}, "W13(1)"},
		{"refused for a reason that is over", []func(*Snapshot){
			leaderless, func(s *Snapshot) { s.Pods = nil },
			event("ccm-5d9f", "FailedCreate", `serviceaccount "ccm" not found`), func(s *Snapshot) {
				event("ccm-5d9f", "FailedCreate", `violates PodSecurity "restricted:latest"`)(s)
				s.Events[1].LastTimestamp = ago(5 * time.Minute)
			},
		}, "D15(1)>W20(1)"},
		{"a file of the machine that was missing for an older pod", []func(*Snapshot){
			leaderless, waiting("CrashLoopBackOff", ""), func(s *Snapshot) { s.Pods[0].CreationTimestamp = ago(time.Second) },
			event("ccm-x7k2p", "FailedMount", `hostPath type check failed: /etc/x is not a file`),
		}, "W26(1)"},
		{"somebody else has the Lease, and the log says that the manager waits for it", []func(*Snapshot){
			logged("Attempting to acquire leader lease kube-system/cloud-controller-manager..."), heldBy("rke2-server_7"),
		}, "H1(1)"},
		{"somebody else's name in the Lease, and the log says that the manager has it", []func(*Snapshot){
			logged("attempting to acquire leader lease", "successfully acquired lease kube-system/cloud-controller-manager"), heldBy("rke2-server_7"),
		}, ""},
		{"a Service that the provider refuses", []func(*Snapshot){func(s *Snapshot) { s.Provider = onprem }, service("web", time.Hour, refused)}, "L13(1)"},
		{"a pool that gives nothing", []func(*Snapshot){pools("PoolNotReady", "Disabled", "")}, "L11(1)"},
		{"pools that cannot be seen", []func(*Snapshot){pools("PoolNotReady"), without(partPools)}, ""},
		{"a run that has just begun, after one that failed", []func(*Snapshot){leaderless, failedLately, logged(`Error: resourceLock value must be \"leases\"`)}, "B16(1)>W26(1)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := Diagnose(newSnapshot(templates.Deployment, 3, tt.changes...))
			if got := words(d); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func heldBy(who string) func(*Snapshot) {
	return func(s *Snapshot) { s.Leases[0].Spec.HolderIdentity = &who }
}

func refused(s *corev1.Service) {
	s.Status.Conditions = []metav1.Condition{{Type: v1alpha1.LoadBalancerReady, Status: metav1.ConditionFalse, Reason: "PoolNotFound", Message: "there is no AddressPool/x"}}
}

// pools has some that are not ready for these reasons; empty: one that nobody has looked at yet.
func pools(reasons ...string) func(*Snapshot) {
	return func(s *Snapshot) {
		for _, reason := range reasons {
			p := Pool{Name: "of-" + reason}
			if reason != "" {
				p.Ready = &metav1.Condition{
					Type: "Ready", Status: metav1.ConditionFalse, Reason: reason, Message: "192.0.2.4 is the InternalIP of Node/w1",
				}
			}
			s.Pools = append(s.Pools, p)
		}
	}
}

func failedLately(s *Snapshot) {
	s.Pods[0].Status.ContainerStatuses[0].RestartCount = 2
	s.Pods[0].Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, FinishedAt: ago(5 * time.Second)}
}

// TestDiagnose_Remedies: what ccmadm has rendered it renders again, unless its record asks for what is wrong.
func TestDiagnose_Remedies(t *testing.T) {
	const again = "on cp1: ccmadm apply --force"
	made := func(s *Snapshot) {
		s.Provider, s.Image = cloud, "registry.k8s.io/provider-aws/cloud-controller-manager:v1.36.0"
		s.Deployments[0].Labels = map[string]string{v1alpha1.ManagedByLabel: v1alpha1.FieldManager}
	}
	byHand := func(s *Snapshot) { s.Deployments[0].Labels = nil }
	unknownFlag := logged("Error: unknown flag: --port")
	server := func(s *Snapshot) {
		s.Masters = []corev1.Pod{{Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "kube-apiserver", Command: []string{"kube-apiserver", "--advertise-address=192.0.2.1", "--secure-port=6444"},
		}}}}}
	}
	tests := []struct {
		name    string
		changes []func(*Snapshot)
		want    string
	}{
		{"rendered", []func(*Snapshot){made, leaderless, unknownFlag}, again},
		{"a permission", []func(*Snapshot){made, denied("patch", "", "nodes")}, again},
		{
			"a permission of somebody else's ServiceAccount",
			[]func(*Snapshot){denied("patch", "", "nodes")},
			"allow it in a role of system:serviceaccount:kube-system:ccm, then: kubectl auth can-i patch nodes " +
				"--as=system:serviceaccount:kube-system:ccm",
		},
		{
			"the same, for its Lease",
			[]func(*Snapshot){denied("update", "coordination.k8s.io", "leases")},
			"allow it in a role of system:serviceaccount:kube-system:ccm, then: kubectl auth can-i update " +
				"leases.coordination.k8s.io/cloud-controller-manager -n kube-system --as=system:serviceaccount:kube-system:ccm",
		},
		{
			"a permission of a static pod that is nobody's", []func(*Snapshot){denied("patch", "", "nodes"), func(s *Snapshot) {
				s.Pods[0].Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
				s.Deployments = nil
			}}, "grant it to the cloud-controller-manager's user",
		},
		{"no pod", []func(*Snapshot){nobody, tainted}, "kubectl get pods -A -o wide | grep -e cloud -e ccm"},
		{"by somebody else", []func(*Snapshot){made, byHand, leaderless, unknownFlag}, "kubectl -n kube-system logs ccm-x7k2p"},
		{"as the record has it", []func(*Snapshot){made, func(s *Snapshot) { s.OwnArguments = true }, leaderless, unknownFlag}, "kubectl -n kube-system logs ccm-x7k2p"},
		{
			"a permission, and a journal that would have the command refused",
			[]func(*Snapshot){made, denied("patch", "", "nodes"), func(s *Snapshot) {
				s.JournalMisread = &Misread{Message: "digest differs", Next: "kubectl delete configmap x"}
			}},
			"kubectl delete configmap x, then: " + again,
		},
		{
			"what only the user has",
			[]func(*Snapshot){made, leaderless, waiting("ContainerCreating", ""), event("ccm-x7k2p", "FailedMount",
				`MountVolume.SetUp failed for volume "cloud-config" : secret "ccmadm-cloud-config" not found`)},
			"on cp1: ccmadm apply -f FILE, a CloudConfiguration with cloudConfig and credentials",
		},
		{
			"a file of what only the user has",
			[]func(*Snapshot){made, leaderless, logged(`Couldn't open cloud provider configuration /etc/kubernetes/cloud-config/cloud.conf: &fs.PathError{Op:"open"}`)},
			"on cp1: ccmadm apply -f FILE, a CloudConfiguration with cloudConfig and credentials",
		},
		{
			"a path that the record has not",
			[]func(*Snapshot){made, leaderless, logged(`"command failed" err="--cloud-config: open /etc/kubernetes/nowhere.conf: no such file or directory"`)},
			again,
		},
		{
			"a cloud whose machines have lost the cluster's tag",
			[]func(*Snapshot){made, leaderless, logged("no ClusterID found.  A ClusterID is required for the cloud provider to function properly.")},
			"kubectl -n kube-system logs ccm-x7k2p",
		},
		{"another image than the record's", []func(*Snapshot){
			made, leaderless, waiting("ImagePullBackOff", ""), func(s *Snapshot) { s.Image = "other:1" },
		}, again},
		{
			"another selector",
			[]func(*Snapshot){leaderless, unplaced(tolerates("")), selecting("no")},
			`kubectl -n kube-system patch deployment/ccm --type=json -p '[{"op":"remove","path":"/spec/template/spec/nodeSelector"}]'`,
		},
		{
			"no way to the Service",
			[]func(*Snapshot){leaderless, server, logged(`Get "https://10.96.0.1:443/api": dial tcp 10.96.0.1:443: connect: connection refused`)},
			"kubectl -n kube-system set env deployment/ccm KUBERNETES_SERVICE_HOST=192.0.2.1 KUBERNETES_SERVICE_PORT=6444",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := Diagnose(newSnapshot(templates.Deployment, 3, tt.changes...))
			if len(d.Causes) == 0 || d.Causes[0].Next != tt.want {
				t.Errorf("got %+v, want %s", d.Causes, tt.want)
			}
		})
	}
}

// TestOurs is about the labels of a workload, or of a static pod.
func TestOurs(t *testing.T) {
	for _, mode := range []templates.Mode{templates.StaticPod, templates.DaemonSet, templates.Deployment} {
		s := newSnapshot(mode, 1, func(s *Snapshot) {
			label := map[string]string{v1alpha1.ManagedByLabel: v1alpha1.FieldManager}
			s.Pods[0].Labels = label
			for _, m := range []*metav1.ObjectMeta{metaOf(s.Deployments), metaOfSets(s.DaemonSets)} {
				m.Labels = label
			}
		})
		if v := newView(s); !v.main().ours() {
			t.Errorf("%s: %s is not ours", mode, v.main().object)
		}
	}
}

func metaOf(list []appsv1.Deployment) *metav1.ObjectMeta {
	if len(list) == 0 {
		return &metav1.ObjectMeta{}
	}
	return &list[0].ObjectMeta
}

func metaOfSets(list []appsv1.DaemonSet) *metav1.ObjectMeta {
	if len(list) == 0 {
		return &metav1.ObjectMeta{}
	}
	return &list[0].ObjectMeta
}
