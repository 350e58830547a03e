package phases

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
)

// mirrored creates the pod of a manifest as a kubelet would, with what the API server fills in.
func mirrored(t *testing.T, client kubernetes.Interface, manifest *corev1.Pod, node string, change func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := manifest.DeepCopy()
	pod.Name += "-" + node
	pod.Spec.NodeName = node
	pod.Annotations[corev1.MirrorPodAnnotationKey] = "x"
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
	change(pod)
	pod, err := client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
		if err := client.CoreV1().Pods(pod.Namespace).Delete(context.WithoutCancel(t.Context()), pod.Name, now); err != nil {
			t.Error(err)
		}
	})
	return pod
}

func TestCluster_Rollout_KnowsItsOwnStaticPod(t *testing.T) {
	m, _ := controlPlaneMachine(t, cluster.Config)
	said := v1alpha1.CloudConfiguration{ClusterName: "ber1", ControllerManager: v1alpha1.ControllerManager{ExtraEnv: []string{"A=1", "B=2"}}}
	for _, p := range []Phase{kubeconfig(), controlPlane()} {
		if out, err := (run{config: initConfig, options: Options{Flags: said}}).do(t, m, p); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if machinetest.Content(m, machine.CCMManifest) == "" {
		t.Fatal("there is no manifest")
	}
	d, _ := run{config: initConfig}.must(t, m)
	wanted, err := staticManager(d)
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(cluster.Config)
	for _, tt := range []struct {
		name   string
		change func(*corev1.Pod)
		same   bool
	}{
		{name: "the same", change: func(*corev1.Pod) {}, same: true},
		{name: "a variable less", change: func(p *corev1.Pod) { p.Spec.Containers[0].Env = p.Spec.Containers[0].Env[1:] }},
		{name: "a variable more", change: func(p *corev1.Pod) {
			p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: "C", Value: "3"})
		}},
		{name: "another argument", change: func(p *corev1.Pod) {
			p.Spec.Containers[0].Args = append(p.Spec.Containers[0].Args, "--v=9")
		}},
		{name: "another identity", change: func(p *corev1.Pod) { p.Annotations[v1alpha1.KubeconfigHashAnnotation] = "x" }},
		{name: "another configuration", change: func(p *corev1.Pod) { p.Annotations[v1alpha1.HashAnnotation] = "x" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := wanted.same(mirrored(t, client, wanted.pod, "cp1", tt.change)); got != tt.same {
				t.Errorf("same is %v, want %v", got, tt.same)
			}
		})
	}
	t.Run("on another control plane, with another variable", func(t *testing.T) {
		other := mirrored(t, client, wanted.pod, "cp2", func(p *corev1.Pod) { p.Spec.Containers[0].Env[0].Value = "2" })
		if wanted.same(other) {
			t.Error("it is taken for the same")
		}
	})
	t.Run("a pod of somebody else with its labels", func(t *testing.T) {
		mirrored(t, client, wanted.pod, "cp1", func(p *corev1.Pod) { delete(p.Annotations, corev1.MirrorPodAnnotationKey) })
		if pods, err := shownPods(t.Context(), client); err != nil || len(pods) != 0 {
			t.Errorf("%d static pods, %v", len(pods), err)
		}
	})
}
