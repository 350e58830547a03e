package diagnosis

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// shownByWorker has w1 show a static pod of the manager's program.
func shownByWorker(changes ...func(*corev1.Pod)) func(*Snapshot) {
	return func(s *Snapshot) {
		p := pod("cloud-controller-manager-w1", "w1")
		p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		for _, change := range changes {
			change(&p)
		}
		s.Pods = append(s.Pods, p)
	}
}

func unelected(p *corev1.Pod) {
	p.Spec.Containers[0].Args = append(p.Spec.Containers[0].Args, "--leader-elect=false")
}

func unscheduled(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
	p.Spec.Tolerations = nil
}

// TestDiagnose_Strays: a kubelet may show any pod as its own. It hides no cause, and makes none up.
func TestDiagnose_Strays(t *testing.T) {
	gone := func(s *Snapshot) { s.Provider, s.Mode, s.Pods, s.DaemonSets = cloud, "DaemonSet", nil, nil }
	unlabelled := func(s *Snapshot) { delete(s.Nodes[0].Labels, v1alpha1.ControlPlaneLabel) }
	for _, tt := range []struct {
		name    string
		mode    templates.Mode
		changes faults
		want    string
	}{
		{"beside a manager that is well", templates.StaticPod, faults{shownByWorker()}, ""},
		{"that could not be placed", templates.StaticPod, faults{shownByWorker(unscheduled)}, ""},
		{
			"that runs, beside a manager without its image", templates.StaticPod,
			faults{tainted, leaderless, waiting("ImagePullBackOff", "not found"), shownByWorker()},
			"W25(4)",
		},
		{
			"that leads by its own word, in the place of the manager", templates.DaemonSet,
			faults{tainted, leaderless, gone, shownByWorker(unelected)},
			"W20(4)",
		},
		{
			"where nobody knows who is a control plane", templates.DaemonSet,
			faults{leaderless, gone, unlabelled, shownByWorker(unelected)},
			"",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := words(Diagnose(newSnapshot(tt.mode, 3, tt.changes...))); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// A control plane's API server is where it says; a worker's word for it is a way to somebody else.
func TestDiagnose_WayToAnAPIServer(t *testing.T) {
	server := func(address string) corev1.Pod {
		p := pod("kube-apiserver", "w1")
		p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		p.Spec.Containers = []corev1.Container{{Name: "kube-apiserver", Args: []string{"--advertise-address=" + address}}}
		return p
	}
	s := newSnapshot(templates.DaemonSet, 3)
	s.Masters = []corev1.Pod{server("192.0.2.66"), server("192.0.2.1")}
	s.Masters[1].Spec.NodeName = "cp1"
	v := newView(s)
	want := "kubectl -n kube-system set env daemonset/ccm KUBERNETES_SERVICE_HOST=192.0.2.1 KUBERNETES_SERVICE_PORT=6443"
	if got := v.otherWay(v.main(), ""); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
