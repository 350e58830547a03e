package adoption

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/existingtest"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// What admission forbids is said, and nothing is left behind.
func TestCluster_Adopt_PodsThatAdmissionForbids(t *testing.T) {
	m, client := plain(t)
	label := func(value string) {
		t.Helper()
		patch := []byte(`{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": ` + value + `}}}`)
		_, err := client.CoreV1().Namespaces().Patch(context.WithoutCancel(t.Context()), "kube-system",
			"application/merge-patch+json", patch, metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	label(`"baseline"`)
	t.Cleanup(func() { label("null") })
	r, _ := adoption(t, m, workflow.Inputs{}, Adoption{Remote: fleet.Remote{Via: fleet.ViaPods, Image: "x"}, NodeTimeout: time.Second})
	n := &fleet.Node{Name: "w1", IP: "198.18.0.101"}
	phasestest.WantError(t, fleet.NewRunner(r.Env, client, adoptionOf(r).Remote, adoptionOf(r).NodeTimeout).Run(t.Context(), n, fleet.Plain{}),
		"run a privileged pod on w1: the cluster's admission forbids it", finding.ExitRefused)
}

// What is misspelled is said before anything is done.
func TestCluster_Adopt_Misspelled(t *testing.T) {
	m, _ := plain(t)
	for want, a := range map[string]Adoption{
		`read --via: "pod" is none of hand, pods, ssh`: {Yes: true, Remote: fleet.Remote{Via: "pod"}},
		"read --skip: there is no Node/w9":             {Yes: true, Remote: fleet.Remote{Skip: []string{"w1", "w9"}}},
	} {
		r, _ := adoption(t, m, workflow.Inputs{}, a)
		phasestest.WantError(t, adoptPreflight().Do(t.Context(), r), want, finding.ExitUsage)
	}
}

// playPod ends the pod of a step as its kubelet would, and tells what it was to run.
func playPod(t *testing.T, client kubernetes.Interface, n *fleet.Node, status corev1.PodStatus) <-chan string {
	return existingtest.PlayPodOf(t, client, fleet.StepPrefix, n, status)
}

// A pod that has done its step has done it, whether or not its kubelet shows what it said. One that the kubelet does not
// run at all is named with the kubelet's reason.
func TestCluster_Adopt_PodsWithoutLog(t *testing.T) {
	m, client := plain(t)
	ended := []corev1.ContainerStatus{{
		Name: "ccmadm", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}},
	}}
	for _, tt := range []struct {
		name       string
		status     corev1.PodStatus
		logTimeout time.Duration
		want, say  string
		noLog      bool
	}{
		{name: "succeeded", status: corev1.PodStatus{Phase: corev1.PodSucceeded}, say: "w1: done, and what was said there cannot be shown"},
		{
			name: "failed", status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: ended}, logTimeout: time.Second,
			want: "it ended as Failed: read the log of Pod/kube-system/" + fleet.PodForNode(fleet.StepPrefix, "w1"),
		},
		{
			name:   "refused by its kubelet",
			status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfpods", Message: "Node has not enough"},
			want:   "it ended as Failed, OutOfpods Node has not enough", noLog: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pods := fleet.Remote{Via: fleet.ViaPods, Image: "x", LogTimeout: tt.logTimeout}
			r, out := adoption(t, m, workflow.Inputs{}, Adoption{Remote: pods, NodeTimeout: 5 * time.Minute})
			n := &fleet.Node{Name: "w1", IP: "198.18.0.101"}
			ran := playPod(t, client, n, tt.status)
			err := fleet.NewRunner(r.Env, client, adoptionOf(r).Remote, adoptionOf(r).NodeTimeout).Run(t.Context(), n, fleet.Plain{})
			if args := <-ran; args != "node plain --forget --timeout=5m0s --root=/host" {
				t.Errorf("it ran %q", args)
			}
			if !strings.Contains(out.String(), tt.say) || tt.want == "" && err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			if tt.want != "" {
				phasestest.WantError(t, workflow.AsError(err), tt.want, finding.ExitError)
			}
			if tt.noLog && strings.Contains(fmt.Sprint(err), "log") {
				t.Errorf("its log was asked for: %v", err)
			}
		})
	}
}

// shownByWorker is a pod that the kubelet of w1 shows as its own, with the name and labels of a step on w2.
func shownByWorker(name string) *corev1.Pod {
	pod := fleet.StepPod(&fleet.Node{Name: "w1"}, fleet.StepPrefix, "x", nil)
	pod.Name, pod.Annotations = name, map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	pod.Spec.Containers[0].SecurityContext, pod.Spec.HostPID = nil, false
	return pod
}

// What another node's kubelet shows is no pod of a step: it neither holds one up nor tells how it has ended.
func TestCluster_Adopt_PodsThatAKubeletShows(t *testing.T) {
	m, client := plain(t)
	pods := client.CoreV1().Pods(v1alpha1.Namespace)
	n := &fleet.Node{Name: "w2", IP: "198.18.0.102"}
	for _, name := range []string{fleet.PodForNode(fleet.StepPrefix, n.Name), fleet.PodForNode(fleet.StepPrefix, n.Name) + "-x"} {
		shown := phasestest.Made(t, pods, shownByWorker(name))
		shown.Status.Phase = corev1.PodSucceeded
		if _, err := pods.UpdateStatus(t.Context(), shown, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	agents := shownByWorker("ccmadm-node-agent-x")
	agents.Annotations, agents.Spec.NodeName = nil, n.Name
	agents.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "ccmadm-node-agent", UID: "x"},
	}
	phasestest.Made(t, pods, agents)
	w1 := &fleet.Node{Name: "w1"}
	if found, err := NoteCutShort(t.Context(), client, []*fleet.Node{w1, n}); err != nil || found {
		t.Errorf("it counts as a run that was cut short: %v, %v", found, err)
	}
	remote := fleet.Remote{Via: fleet.ViaPods, Image: "x", LogTimeout: time.Second}
	r, out := adoption(t, m, workflow.Inputs{}, Adoption{Remote: remote, NodeTimeout: fleet.NodeTimeout})
	for _, phase := range []corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded} {
		ran := playPod(t, client, n, corev1.PodStatus{Phase: phase})
		err := fleet.NewRunner(r.Env, client, adoptionOf(r).Remote, adoptionOf(r).NodeTimeout).Run(t.Context(), n, fleet.Plain{})
		if args := <-ran; args != "node plain --forget --root=/host" || (err == nil) != (phase == corev1.PodSucceeded) {
			t.Errorf("%s: it ran %q, %v\n%s", phase, args, err, out)
		}
	}
}

// Where another node's kubelet shows a pod of the very name, it is named at once.
func TestPods_NameThatAKubeletShows(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		name := a.(clienttesting.CreateAction).GetObject().(*corev1.Pod).Name
		err := client.Tracker().Add(shownByWorker(name))
		return true, nil, errors.Join(err, apierrors.NewAlreadyExists(corev1.Resource("pods"), name))
	})
	b := fleet.Pods{Env: &workflow.Env{}, Client: client, Prefix: fleet.StepPrefix}
	phasestest.WantError(t, b.Run(t.Context(), &fleet.Node{Name: "w2"}, fleet.Plain{}), "the kubelet of Node/w1 shows Pod/kube-system/"+
		fleet.PodForNode(fleet.StepPrefix, "w2"), finding.ExitRefused)
}
