package phases

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
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
	d, _ := adoption(t, m, Options{}, Adoption{Via: ViaPods, Image: "x", NodeTimeout: time.Second})
	n := &plannedNode{name: "w1", ip: "198.18.0.101"}
	wantError(t, newStepper(d, client).run(t.Context(), n, "plain"),
		"run a privileged pod on w1: the cluster's admission forbids it", finding.ExitRefused)
}

// What is misspelled is said before anything is done.
func TestCluster_Adopt_Misspelled(t *testing.T) {
	m, _ := plain(t)
	for want, a := range map[string]Adoption{
		`read --via: "pod" is none of hand, pods, ssh`: {Yes: true, Via: "pod"},
		"read --skip: there is no Node/w9":             {Yes: true, Skip: []string{"w1", "w9"}},
	} {
		d, _ := adoption(t, m, Options{}, a)
		wantError(t, adoptPreflight().run(t.Context(), d), want, finding.ExitUsage)
	}
}

// playPod ends the pod of a step as its kubelet would, and tells what it was to run.
func playPod(t *testing.T, client kubernetes.Interface, n *plannedNode, status corev1.PodStatus) <-chan string {
	ran := make(chan string, 1)
	go func() {
		defer close(ran)
		pods := client.CoreV1().Pods(v1alpha1.Namespace)
		for ; t.Context().Err() == nil; time.Sleep(50 * time.Millisecond) {
			pod, err := pods.Get(t.Context(), podOfStep(n), metav1.GetOptions{})
			if err != nil {
				continue
			}
			pod.Status = status
			if _, err = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err == nil {
				ran <- strings.Join(pod.Spec.Containers[0].Args, " ")
				return
			}
		}
	}()
	return ran
}

// A pod that has done its step has done it, whether or not its kubelet shows what it said. One that the kubelet does not
// run at all is named with the kubelet's reason.
func TestCluster_Adopt_PodsWithoutLog(t *testing.T) {
	m, client := plain(t)
	for _, tt := range []struct {
		status    corev1.PodStatus
		want, say string
	}{
		{status: corev1.PodStatus{Phase: corev1.PodSucceeded}, say: "w1: done, and what was said there cannot be shown"},
		{
			status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfpods", Message: "Node has not enough"},
			want:   "it ended as Failed, OutOfpods Node has not enough",
		},
	} {
		t.Run(string(tt.status.Phase), func(t *testing.T) {
			d, out := adoption(t, m, Options{}, Adoption{Via: ViaPods, Image: "x", NodeTimeout: 5 * time.Minute})
			n := &plannedNode{name: "w1", ip: "198.18.0.101"}
			ran := playPod(t, client, n, tt.status)
			err := newStepper(d, client).run(t.Context(), n, "plain")
			if args := <-ran; args != "node plain --timeout=5m0s --root=/host" {
				t.Errorf("it ran %q", args)
			}
			if !strings.Contains(out.String(), tt.say) || tt.want == "" && err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			if tt.want != "" {
				wantError(t, asError(err), tt.want, finding.ExitError)
			}
		})
	}
}
