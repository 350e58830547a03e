package phases

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/existingtest"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// httpsProxies are the values of that variable in a container: one, if there is no mistake.
func httpsProxies(spec corev1.PodSpec) []string {
	var list []string
	for _, e := range spec.Containers[0].Env {
		if e.Name == "HTTPS_PROXY" {
			list = append(list, e.Value)
		}
	}
	return list
}

// inShell runs phases in a shell with a proxy.
func inShell(t *testing.T, m *machine.Machine, file, proxy string, list ...workflow.Phase) *workflow.Run {
	t.Helper()
	r, out := phasestest.Run{Config: file, Inputs: workflow.Inputs{Existing: true, Command: "apply"}}.Must(t, m)
	r.Getenv = func(name string) string { return map[string]string{"HTTPS_PROXY": proxy}[name] }
	if err := r.Do(t.Context(), list); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return r
}

// What the user says in extraEnv can be changed, taken away, and led back from; what the machine's environment said
// before is there again.
func TestCluster_Apply_ProxiesInExtraEnv(t *testing.T) {
	const name = "hetzner-cloud-controller-manager"
	for what, before := range map[string][]string{"without a proxy before": nil, "with one": {"http://first:1"}} {
		t.Run(what, func(t *testing.T) {
			m := existingtest.Living(t)
			sets := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config).AppsV1().DaemonSets("kube-system")
			want := func(when string, values []string) {
				t.Helper()
				set, err := sets.Get(t.Context(), name, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if got := httpsProxies(set.Spec.Template.Spec); !slices.Equal(got, values) {
					t.Errorf("%s: proxies %v, want %v", when, got, values)
				}
			}
			said := func(env string) string {
				return phasestest.CloudDocument + "controllerManager: {extraEnv: [" + env + "]}\n"
			}
			if before != nil {
				if err := sets.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				inShell(t, m, "", before[0], manager.Addon())
			}
			want("first", before)
			inShell(t, m, said("HTTPS_PROXY=http://mistyped:1"), "http://shell:1", manager.Addon()) // and cut short
			want("cut short", []string{"http://mistyped:1"})
			inShell(t, m, "", "http://shell:1", manager.Addon())
			want("led back", before)
			for i, wanted := range []bool{true, false} {
				out, changed, err := existingtest.ApplyRun(t, m, said("A=1, HTTPS_PROXY=http://mine:1"), workflow.Inputs{})
				if err != nil || changed != wanted {
					t.Errorf("run %d: changed %v, %v\n%s", i, changed, err, out)
				}
			}
			want("said", []string{"http://mine:1"})
			if out, _, err := existingtest.ApplyRun(t, m, said("HTTPS_PROXY=http://other:1"), workflow.Inputs{}); err != nil {
				t.Errorf("another one: %v\n%s", err, out)
			}
			want("another one", []string{"http://other:1"})
			if out, _, err := existingtest.ApplyRun(t, m, said(""), workflow.Inputs{}); err != nil {
				t.Errorf("none: %v\n%s", err, out)
			}
			want("taken away", before)
		})
	}
}

// A change of mode comes to one control plane after the other, and from the second on the workload is gone.
func TestCluster_Apply_ProxiesOfAnotherControlPlane(t *testing.T) {
	m := existingtest.LivingAs(t, config.CloudConfiguration{Provider: "onprem", Mode: config.ModeDaemonSet, ClusterName: "ber1"})
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
	if out, _, err := existingtest.ApplyRun(t, m, phasestest.CloudDocument+"mode: StaticPod\n", workflow.Inputs{}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	pod, err := record.ReadStaticPod(m, machine.CCMManifest)
	if err != nil {
		t.Fatal(err)
	}
	proxied := func(p *corev1.Pod) {
		p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: "HTTPS_PROXY", Value: "http://p:1"})
	}
	phasestest.Made(t, client.CoreV1().Nodes(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "cp2", Labels: map[string]string{v1alpha1.ControlPlaneLabel: ""}},
	})
	phasestest.Made(t, client.CoreV1().Nodes(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a1"}})
	phasestest.Mirrored(t, client, pod, "a1", func(p *corev1.Pod) { // a worker's kubelet shows what it likes
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://worker:1"}}
	})
	other := phasestest.Mirrored(t, client, pod, "cp2", proxied)
	if s, err := inShell(t, m, "", "http://shell:1").Settings(t.Context()); err != nil || len(s.Proxies) != 0 {
		t.Errorf("proxies %v, %v; this machine's manager has none", s.Proxies, err)
	}
	if own := (&manager.Wanted{Pod: pod, Node: "cp1"}); !own.Same(other) {
		t.Error("another machine's proxy makes its pod another one")
	}
	if _, err := m.Files.Remove(machine.CCMManifest); err != nil {
		t.Fatal(err)
	}
	s, err := inShell(t, m, "", "http://shell:1").Settings(t.Context())
	if err != nil || !slices.Equal(s.Proxies, []string{"HTTPS_PROXY=http://p:1"}) {
		t.Errorf("proxies %v, %v; want those of cp2", s.Proxies, err)
	}
}
