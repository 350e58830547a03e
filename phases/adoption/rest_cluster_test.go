package adoption

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// cutShortAtKubelet leaves the journal as a run does that is killed while it changes the kubelet of w1, and its pod.
func cutShortAtKubelet(t *testing.T, client kubernetes.Interface, after string) {
	t.Helper()
	ctx, die := context.WithCancel(t.Context())
	j, err := journal.Open(ctx, client, journal.Run{Command: "adopt", Machine: "cp9", Version: "test", After: after})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := client.CoreV1().ConfigMaps(v1alpha1.Namespace).Delete(context.WithoutCancel(t.Context()),
			v1alpha1.JournalName, metav1.DeleteOptions{})
		if err != nil {
			t.Error(err)
		}
	})
	_ = j.Do(ctx, journal.Step{Name: kubeletStep, Node: "w1"}, func(context.Context) error {
		die()
		return context.Canceled
	})
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	pod := fleet.StepPod(&fleet.Node{Name: "w1"}, fleet.StepPrefix, "x", []string{"node", "external"})
	pods := client.CoreV1().Pods(v1alpha1.Namespace)
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase = corev1.PodSucceeded // or it would wait for its kubelet to let it go
	if _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A kubelet that a run was changing when it was cut short is changed again, whatever its Node says, and the pod of
// that run is ended before anything is done.
func TestCluster_Leave_KubeletOfRunThatWasCutShort(t *testing.T) {
	m, client := plain(t)
	r, out := adoption(t, m, workflow.Inputs{}, Adoption{Yes: true})
	if err := held(begin()).Do(t.Context(), r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cutShortAtKubelet(t, client, "")
	pods := fleet.Remote{Via: fleet.ViaPods, Image: "x", LogTimeout: time.Second}
	r, out = adoption(t, m, workflow.Inputs{}, Adoption{Leave: true, Yes: true, Remote: pods, NodeTimeout: fleet.NodeTimeout})
	if err := leavePreflight().Do(t.Context(), r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(out.String(), "w1: a run was cut short while it changed the kubelet") {
		t.Errorf("it is not said:\n%s", out)
	}
	if left, err := fleet.PodsOfSteps(t.Context(), client, fleet.StepPrefix); err != nil || len(left) > 0 {
		t.Errorf("its pod is left: %v, %v", left, err)
	}
	plan, err := adoptionOf(r).plannedNodes(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if err := kubelet.Taint(t.Context(), client, "w1", true); err != nil { // it was set, and nobody will take it away
		t.Fatal(err)
	}
	a, err := adoptionOf(r).newAdopter(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	ran := playPod(t, client, plan[0], corev1.PodStatus{Phase: corev1.PodSucceeded})
	if err := a.leave(t.Context(), plan[0]); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if args := <-ran; args != "node plain --forget --root=/host" {
		t.Errorf("it ran %q", args)
	}
	node, err := client.CoreV1().Nodes().Get(t.Context(), "w1", metav1.GetOptions{})
	if err != nil || nodes.IsTainted(node) {
		t.Errorf("the taint is left: %v", err)
	}
}

// A run of a large cluster leaves more than the journal has room for otherwise. The run that takes it up still knows
// where it stopped, and so does the one after that.
func TestCluster_Leave_LargeRunThatWasCutShort(t *testing.T) {
	m, client := plain(t)
	r, out := adoption(t, m, workflow.Inputs{}, Adoption{Yes: true})
	if err := held(begin()).Do(t.Context(), r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cutShortAtKubelet(t, client, strings.Repeat("x", 210_000))
	for range 2 {
		pods := fleet.Remote{Via: fleet.ViaPods}
		r, out = adoption(t, m, workflow.Inputs{}, Adoption{Leave: true, Yes: true, Remote: pods, NodeTimeout: fleet.NodeTimeout})
		if err := leavePreflight().Do(t.Context(), r); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		plan, err := adoptionOf(r).plannedNodes(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range plan {
			if n.Unsure != (n.Name == "w1") {
				t.Errorf("%s: unsure is %v", n.Name, n.Unsure)
			}
		}
		runs, err := journal.Read(t.Context(), client)
		if err != nil || len(runs) < 2 || len(runs[0].Steps) != 1 || runs[0].Shortened {
			t.Errorf("the run is not in the journal any more: %d runs, %v", len(runs), err)
		}
		if err := r.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
