package adoption

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/manifests/apply"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// adoptedByOnprem is a cluster that onprem was brought to, with all Nodes known.
func adoptedByOnprem(t *testing.T) (*machine.Machine, kubernetes.Interface) {
	t.Helper()
	m, client := plain(t)
	file := filepath.Join(t.TempDir(), "onprem.yaml")
	const text = "apiVersion: ccmadm.dev/v1alpha1\nkind: OnPremConfiguration\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	adopt := workflow.Inputs{
		Command: "adopt",
		Request: workflow.Request{Flags: config.CloudConfiguration{
			Provider: "onprem", CloudConfig: config.CloudConfigFile{File: file},
			ControllerManager: config.ControllerManager{ExtraArgs: []string{"--v=4"}},
		}},
	}
	r, out := adoption(t, m, adopt, Adoption{Yes: true})
	runAll(t.Context(), t, r, out, Adopt()[:6])
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	knowAll(t, client, map[string]string{v1alpha1.ProvidedNodeIPAnnotation: "x"})
	r, out = adoption(t, m, workflow.Inputs{}, Adoption{Yes: true})
	if err := resolved(manager.Record()).Do(t.Context(), r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return m, client
}

// Another provider comes where provider IDs allow it, once the manager of the former one has ended, and each Node is
// initialized by it before it may delete any.
func TestCluster_Adopt_OtherProvider(t *testing.T) {
	m, client := adoptedByOnprem(t)
	sample := workflow.Inputs{
		Command: "adopt",
		Request: workflow.Request{Flags: config.CloudConfiguration{
			Provider: "sample", ControllerManager: config.ControllerManager{
				Image: "example.org/ccm:1", ExtraArgs: []string{"--cloud-provider=onprem"},
			},
		}},
	}
	r, _ := adoption(t, m, workflow.Inputs{
		Request: workflow.Request{Flags: config.CloudConfiguration{
			Provider: "hetzner", Credentials: []config.Credential{{Key: "token", File: phasestest.TokenFile(t)}},
		}},
	}, Adoption{Yes: true})
	phasestest.WantError(t, adoptPreflight().Do(t.Context(), r),
		"w1: its provider ID onprem://ber1/w1 is another provider's, and cannot change", finding.ExitRefused)
	pods := client.CoreV1().Pods("kube-system")
	phasestest.Made(t, pods, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "former", Labels: map[string]string{
			v1alpha1.ManagedByLabel: v1alpha1.FieldManager, v1alpha1.NameLabel: "onprem-cloud-controller-manager",
		}},
		Spec: corev1.PodSpec{NodeName: "w1", Containers: []corev1.Container{{
			Name: "c", Image: "onprem/cloud-controller-manager:1", Args: []string{"--cloud-provider=onprem"},
		}}},
	})
	r, out := adoption(t, m, sample, Adoption{Yes: true})
	if err := adoptPreflight().Do(t.Context(), r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	phasestest.Made(t, pods, &corev1.Pod{ // what a kubelet shows as its own, no workload has
		ObjectMeta: metav1.ObjectMeta{
			Name: "shown", Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"},
			Labels: map[string]string{
				v1alpha1.ManagedByLabel: v1alpha1.FieldManager, v1alpha1.NameLabel: "onprem-cloud-controller-manager",
			},
		},
		Spec: corev1.PodSpec{NodeName: "w1", Containers: []corev1.Container{{Name: "c", Image: "busybox"}}},
	})
	ended := make(chan error, 1)
	go func() { ended <- formerProvider().Do(t.Context(), r) }()
	select {
	case err := <-ended:
		t.Fatalf("it did not wait for the former manager's pod: %v", err)
	case <-time.After(2 * time.Second):
	}
	if err := pods.Delete(t.Context(), "former", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	expectFiles(t, m, map[string]int{"onprem": 1, "sample": 0})
	runAll(t.Context(), t, r, out, Adopt()[2:6])
	expectFiles(t, m, map[string]int{"onprem": 0, "sample": 0})
	if own, err := m.Record(); err != nil || own.Configuration.CloudConfig.File != "" {
		t.Errorf("this machine's record names a file of the former provider: %+v, %v", own, err)
	}
	expectProvider(t, client, "sample", "onprem", config.LifecycleOff)
	rec, err := workflow.ReadRecord(t.Context(), client)
	if err != nil || len(rec.Configuration.ControllerManager.ExtraArgs) != 1 {
		t.Errorf("arguments of the former manager are left: %+v, %v", rec, err)
	}
	plan, err := adoptionOf(r).plannedNodes(t.Context(), r)
	if err != nil || plan[0].Initialized {
		t.Errorf("w1 is taken for one that the new provider knows: %v", err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	back(t, m, client)
	expectProvider(t, client, "onprem", "sample", config.LifecycleGuarded)
	args := phasestest.ArgsOf(t, client.AppsV1().DaemonSets("kube-system").Get, "onprem-cloud-controller-manager")
	if !strings.Contains(strings.Join(args, " "), "--v=4") {
		t.Errorf("the former manager's arguments are %q", args)
	}
}

// expectFiles says how many files a provider finds in use: never those of another one.
func expectFiles(t *testing.T, m *machine.Machine, want map[string]int) {
	t.Helper()
	for provider, count := range want {
		r, _ := adoption(t, m, workflow.Inputs{}, Adoption{Yes: true})
		s := &settings.Settings{}
		s.Provider = provider
		if files, err := manager.FetchCloudFiles(t.Context(), r.Env, s); err != nil || len(files) != count {
			t.Errorf("%s finds %d files, %v; want %d", provider, len(files), err, count)
		}
	}
}

// A run that has waited for an answer, or for the journal, while another one has changed the cluster goes by settings
// of before.
func TestCluster_Adopt_AnotherRunHasChangedTheRecord(t *testing.T) {
	m, client := adoptedByOnprem(t)
	r, _ := adoption(t, m, workflow.Inputs{Command: "leave"}, Adoption{Leave: true, Yes: true})
	if _, err := r.Settings(t.Context()); err != nil {
		t.Fatal(err)
	}
	maps := client.CoreV1().ConfigMaps("kube-system")
	live, err := maps.Get(t.Context(), v1alpha1.RecordName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	live.Data[v1alpha1.RecordKey] = strings.Replace(live.Data[v1alpha1.RecordKey], "--v=4", "--v=5", 1)
	if _, err := maps.Update(t.Context(), live, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	phasestest.WantError(t, leavePreflight().Do(t.Context(), r), "the cluster's record changed after this run read it", finding.ExitRefused)
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// The mode of the record may not have come to each control plane: a static pod that is left is nobody's to remove.
func TestCluster_Leave_StaticPodLeft(t *testing.T) {
	m, client := adoptedByOnprem(t)
	phasestest.AddNode(t, client, "cp2", "198.18.0.12", map[string]string{v1alpha1.ControlPlaneLabel: ""})
	for _, node := range []string{"w1", "cp2"} { // a worker may show what it will
		phasestest.Made(t, client.CoreV1().Pods("kube-system"), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: v1alpha1.Component + "-" + node, Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"},
				Labels: map[string]string{v1alpha1.ComponentLabel: v1alpha1.Component},
			},
			Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "x"}}},
		})
	}
	r, _ := adoption(t, m, workflow.Inputs{Command: "leave"}, Adoption{Leave: true, Yes: true})
	phasestest.Made(t, client.CoreV1().Services("default"), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "lb", Finalizers: []string{v1alpha1.LoadBalancerFinalizer}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	})
	err := leavePreflight().Do(t.Context(), r) // all that stands in the way at once
	phasestest.WantError(t, err, "the manager is still a static pod on cp2", finding.ExitRefused)
	phasestest.WantError(t, err, "no longer be served or removed: Service/default/lb", finding.ExitRefused)
	if _, err := client.CoreV1().Services("default").Patch(t.Context(), "lb", "application/merge-patch+json",
		[]byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().Services("default").Delete(t.Context(), "lb", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	cp2, err := client.CoreV1().Nodes().Get(t.Context(), "cp2", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cp2.Labels = nil // deleted, and registered again
	if _, err := client.CoreV1().Nodes().Update(t.Context(), cp2, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	phasestest.ShowAPIServer(t, client, "cp2")
	r, _ = adoption(t, m, workflow.Inputs{Command: "leave"}, Adoption{Leave: true, Yes: true})
	phasestest.WantError(t, leavePreflight().Do(t.Context(), r), "the manager is a static pod on Node/cp2, which shows an API server",
		finding.ExitRefused)
	r, out := adoption(t, m, workflow.Inputs{Command: "leave"}, Adoption{Leave: true, Yes: true, Remote: fleet.Remote{Skip: []string{"cp2"}}})
	if err := leavePreflight().Do(t.Context(), r); err != nil {
		t.Errorf("--skip: %v\n%s", err, out)
	}
}

// expectProvider looks for a manager, and that the other one is gone with its identity.
func expectProvider(t *testing.T, client kubernetes.Interface, want, gone string, lifecycle config.Lifecycle) {
	t.Helper()
	rec, err := workflow.ReadRecord(t.Context(), client)
	if err != nil || rec.Configuration.Provider != want || rec.Configuration.Lifecycle != lifecycle {
		t.Errorf("the record says %+v, %v", rec, err)
	}
	const suffix = "-cloud-controller-manager"
	if _, err := client.AppsV1().DaemonSets("kube-system").Get(t.Context(), want+suffix, metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	_, err = client.AppsV1().DaemonSets("kube-system").Get(t.Context(), gone+suffix, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the manager of %s is there: %v", gone, err)
	}
	_, err = client.CoreV1().ServiceAccounts("kube-system").Get(t.Context(), gone+suffix, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the identity of %s's manager is there: %v", gone, err)
	}
}

// What the former provider does for the cluster, and nobody would go on with, is refused.
func TestCluster_Adopt_OtherProviderServes(t *testing.T) {
	m, client := adoptedByOnprem(t)
	services := client.CoreV1().Services("default")
	lb := phasestest.Made(t, services, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "lb"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	})
	lb.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	if _, err := services.UpdateStatus(t.Context(), lb, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r, _ := adoption(t, m, workflow.Inputs{Request: workflow.Request{Flags: config.CloudConfiguration{Provider: "sample"}}}, Adoption{Yes: true})
	phasestest.WantError(t, adoptPreflight().Do(t.Context(), r), "these have load balancers of provider onprem: Service/default/lb",
		finding.ExitRefused)
}

// Pools go with their definitions: a provider without agents is refused, and to one with agents they stay.
func TestCluster_Adopt_OtherProviderAndPools(t *testing.T) {
	m, _ := adoptedByOnprem(t)
	if out, err := (phasestest.Run{Inputs: workflow.Inputs{Existing: true, Request: workflow.Request{Flags: config.CloudConfiguration{Provider: "onprem"}}}}).Do(t, m,
		manager.NodeAgent()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	pools := dynamic.NewForConfigOrDie(phasestest.Cluster.Config).
		Resource(schema.GroupVersionResource{Group: "ccmadm.dev", Version: "v1alpha1", Resource: "addresspools"})
	pool := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.APIVersion, "kind": "AddressPool", "metadata": map[string]any{"name": "office"},
		"spec": map[string]any{"ranges": []any{"192.0.2.0/28"}},
	}}
	if _, err := pools.Create(t.Context(), pool, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	r, out := adoption(t, m, workflow.Inputs{
		Request: workflow.Request{Flags: config.CloudConfiguration{
			Provider: "sample", ControllerManager: config.ControllerManager{
				Image: "example.org/ccm:1", ExtraArgs: []string{"--cloud-provider=onprem"},
			},
		}},
	}, Adoption{Yes: true})
	if err := adoptPreflight().Do(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	const warning = `provider "sample" does not serve what stays of provider onprem: AddressPool/office`
	if !strings.Contains(out.String(), warning) {
		t.Errorf("it says\n%s\nwant %q", out, warning)
	}
	applier, err := workflow.NewApplier(r.Env, machine.AdminConf)
	if err != nil {
		t.Fatal(err)
	}
	if err := removeSets(t.Context(), r.Env, applier, apply.NodeAgent); err != nil {
		t.Fatal(err)
	}
	if _, err := pools.Get(t.Context(), "office", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}
