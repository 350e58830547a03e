package existingtest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/manifests/apply"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// Living is a cluster of hetzner's manager as a DaemonSet, as `ccmadm init` leaves it.
func Living(t *testing.T) *machine.Machine {
	t.Helper()
	token := []config.Credential{{Key: "token", File: phasestest.TokenFile(t)}}
	return LivingAs(t, config.CloudConfiguration{
		Provider: "hetzner", Mode: config.ModeDaemonSet, ClusterName: "ber1", Credentials: token,
	})
}

// LivingAs is a cluster as `ccmadm init` leaves it with the settings.
func LivingAs(t *testing.T, said config.CloudConfiguration) *machine.Machine {
	t.Helper()
	m, _ := phasestest.ControlPlaneMachine(t, phasestest.Cluster.Config)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		applier, err := apply.NewCluster(phasestest.Cluster.Config, true)
		if err == nil {
			_, err = applier.Remove(ctx)
		}
		if err != nil {
			t.Error(err)
		}
		maps := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config).CoreV1().ConfigMaps("kube-system")
		if err := maps.Delete(ctx, v1alpha1.JournalName, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	for _, p := range []workflow.Phase{manager.CloudConfig(), manager.RBAC(), manager.Addon(), manager.Record()} {
		if out, err := (phasestest.Run{Config: phasestest.InitConfig, Inputs: workflow.Inputs{Request: workflow.Request{Flags: said}}}).Do(t, m, p); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return m
}

// ApplyRun makes the cluster agree with a file, or with its record, and does not wait for pods, which nobody runs here.
func ApplyRun(t *testing.T, m *machine.Machine, file string, o workflow.Inputs) (string, bool, error) {
	t.Helper()
	o.Existing = true
	r, out, err := phasestest.Run{Config: file, Inputs: o}.Data(t, m)
	if err != nil {
		return "", false, err
	}
	list := slices.DeleteFunc(manager.Apply(), func(p workflow.Phase) bool { return p.Name == "rollout" })
	err = r.Do(t.Context(), list)
	return out.String(), r.Changed(), err
}

// PlayPodOf is playPod for the pods with that prefix.
func PlayPodOf(
	t *testing.T, client kubernetes.Interface, prefix string, n *fleet.Node, status corev1.PodStatus,
) <-chan string {
	ran := make(chan string, 1)
	go func() {
		defer close(ran)
		pods := client.CoreV1().Pods(v1alpha1.Namespace)
		for ; t.Context().Err() == nil; time.Sleep(50 * time.Millisecond) {
			list, err := fleet.PodsOfSteps(t.Context(), client, prefix)
			i := slices.IndexFunc(list, n.Runs)
			if err != nil || i < 0 {
				continue
			}
			pod := &list[i]
			pod.Status = status
			if _, err = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err == nil {
				ran <- strings.Join(pod.Spec.Containers[0].Args, " ")
				return
			}
		}
	}()
	return ran
}
