package manifests_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// The manager of onprem may say of a pod that it is not Ready, and nothing else.
func TestCluster_ManagerSaysNotReadyOnly(t *testing.T) {
	p, err := templates.Load("onprem")
	if err != nil {
		t.Fatal(err)
	}
	grant(t, p, templates.StaticPod)
	admin := kubernetes.NewForConfigOrDie(cluster.Config)
	pod, err := admin.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "serves"},
		Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "192.0.2.1", PodIPs: []corev1.PodIP{{IP: "192.0.2.1"}}}
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
	}
	if _, err := admin.CoreV1().Pods("default").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: v1alpha1.StaticPodUser}
	manager := kubernetes.NewForConfigOrDie(config)
	patch := func(ctx context.Context, text string, dryRun ...string) error {
		_, err := manager.CoreV1().Pods("default").Patch(ctx, "serves", types.StrategicMergePatchType, []byte(text),
			metav1.PatchOptions{DryRun: dryRun}, "status")
		return err
	}
	const diverted = `{"status": {"podIPs": [{"$patch": "replace"}, {"ip": "192.0.2.66"}], "podIP": "192.0.2.66"}}`
	var last error
	err = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			last = patch(ctx, diverted, metav1.DryRunAll)
			return apierrors.IsForbidden(last) && strings.Contains(last.Error(), "no more of a pod than its"), nil
		})
	if err != nil {
		t.Fatalf("the policy refuses nothing: %v", last)
	}
	for _, tc := range []struct {
		text    string
		allowed bool
	}{
		{diverted, false},
		{`{"status": {"phase": "Failed"}}`, false},
		{`{"status": {"reason": "Evicted"}}`, false},
		{`{"metadata": {"labels": {"app": "web"}}}`, false},
		{`{"metadata": {"finalizers": ["example.com/held"]}}`, false},
		{`{"status": {"containerStatuses": [{"name": "c", "ready": true, "image": "i", "imageID": "i"}]}}`, false},
		{`{"status": {"conditions": [{"type": "ContainersReady", "status": "False"}]}}`, false},
		{`{"status": {"conditions": [{"type": "example.com/Gate", "status": "True"}]}}`, false},
		{`{"status": {"conditions": [{"type": "ContainersReady", "$patch": "delete"}]}}`, false},
		{`{"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "MachineUnreachable"}]}}`, true},
		{`{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}`, false},
	} {
		if err := patch(t.Context(), tc.text); (err == nil) != tc.allowed || err != nil && !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want it allowed: %t", tc.text, err, tc.allowed)
		}
	}
}
