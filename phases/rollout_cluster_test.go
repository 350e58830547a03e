package phases

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func TestCluster_Rollout_KnowsItsOwnStaticPod(t *testing.T) {
	m, _ := phasestest.ControlPlaneMachine(t, phasestest.Cluster.Config)
	said := config.CloudConfiguration{ClusterName: "ber1", ControllerManager: config.ControllerManager{ExtraEnv: []string{"A=1", "B=2"}}}
	for _, p := range []workflow.Phase{manager.Kubeconfig(), manager.ControlPlane()} {
		if out, err := (phasestest.Run{Config: phasestest.InitConfig, Inputs: workflow.Inputs{Request: workflow.Request{Flags: said}}}).Do(t, m, p); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	if machinetest.Content(m, machine.CCMManifest) == "" {
		t.Fatal("there is no manifest")
	}
	r, _ := phasestest.Run{Config: phasestest.InitConfig}.Must(t, m)
	wanted, err := manager.StaticManager(r.Host)
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
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
			if got := wanted.Same(phasestest.Mirrored(t, client, wanted.Pod, "cp1", tt.change)); got != tt.same {
				t.Errorf("same is %v, want %v", got, tt.same)
			}
		})
	}
	t.Run("on another control plane, with another variable", func(t *testing.T) {
		other := phasestest.Mirrored(t, client, wanted.Pod, "cp2", func(p *corev1.Pod) { p.Spec.Containers[0].Env[0].Value = "2" })
		if wanted.Same(other) {
			t.Error("it is taken for the same")
		}
	})
	t.Run("a pod of somebody else with its labels", func(t *testing.T) {
		phasestest.Mirrored(t, client, wanted.Pod, "cp1", func(p *corev1.Pod) { delete(p.Annotations, corev1.MirrorPodAnnotationKey) })
		if pods, err := record.ShownPods(t.Context(), client); err != nil || len(pods) != 0 {
			t.Errorf("%d static pods, %v", len(pods), err)
		}
	})
}
