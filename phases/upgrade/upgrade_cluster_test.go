package upgrade

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/existingtest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/upgrade/planner"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// kubeadmsObjects are what kubeadm has in a cluster of 1.35, poisoned.
func kubeadmsObjects(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	for name, data := range map[string]map[string]string{
		workflow.KubeadmConfigName: {"ClusterConfiguration": `apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.35.4
featureGates: {ControlPlaneKubeletLocalMode: true}
apiServer:
  extraArgs:
  - {name: cloud_provider, value: external}
controllerManager:
  extraArgs:
  - {name: feature-gates, value: "TopologyAwareHints=true,NoSuchThing=false"}
`},
		kubeletConfigName: {
			"kubelet": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" +
				"featureGates: {MemoryManager: true}\n",
		},
		kubeProxyName: {
			kubeProxyKey: "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n" +
				"featureGates:\n  ServiceTrafficDistribution: true\n  NFTablesProxyMode: true\n",
			"kubeconfig.conf": "not touched",
		},
	} {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: v1alpha1.Namespace}, Data: data}
		if _, err := client.CoreV1().ConfigMaps(v1alpha1.Namespace).Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx := context.WithoutCancel(t.Context())
			if err := client.CoreV1().ConfigMaps(v1alpha1.Namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// member creates a Node as a kubelet of the version would, and on a control plane the mirror of its API server's pod.
func member(t *testing.T, client kubernetes.Interface, name, version string, controlPlane bool) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	if controlPlane {
		node.Labels[v1alpha1.ControlPlaneLabel] = ""
	}
	node = phasestest.Made(t, client.CoreV1().Nodes(), node)
	node.Status.NodeInfo.KubeletVersion = version
	if _, err := client.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if !controlPlane {
		return
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: string(planner.APIServer), Namespace: v1alpha1.Namespace, Annotations: map[string]string{},
		Labels: map[string]string{v1alpha1.ComponentLabel: string(planner.APIServer), "tier": "control-plane"},
	}}
	pod.Spec.HostNetwork = true
	pod.Spec.Containers = []corev1.Container{{
		Name: "kube-apiserver", Image: "registry.k8s.io/kube-apiserver:" + version, Command: []string{"kube-apiserver", "--cloud-config=/x"},
	}}
	phasestest.Mirrored(t, client, pod, name, func(*corev1.Pod) {})
}

func TestCluster_UpgradeFacts(t *testing.T) {
	m := existingtest.Living(t)
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
	kubeadmsObjects(t, client)
	member(t, client, "cp1", "v1.35.4", true)
	member(t, client, "cp2", "v1.35.4", true)
	member(t, client, "w1", "v1.34.4", false)
	forged := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "forged", Namespace: v1alpha1.Namespace, Annotations: map[string]string{},
		Labels: map[string]string{v1alpha1.ComponentLabel: string(planner.APIServer), "tier": "control-plane"},
	}}
	forged.Spec.Containers = []corev1.Container{{Name: "a", Image: "kube-apiserver:v1.99.0", Args: []string{"--cloud-config=x"}}}
	phasestest.Mirrored(t, client, forged, "w1", func(*corev1.Pod) {}) // as a worker's kubelet may
	forged.Name, forged.Labels[v1alpha1.ComponentLabel] = "manager", string(planner.Manager)
	phasestest.Mirrored(t, client, forged, "w1", func(*corev1.Pod) {})
	machinetest.Put(t, m, machine.APIServerPod, "spec: {containers: [{name: a, command: [kube-apiserver, --cloud-provider=external]}]}\n")
	machinetest.Put(t, m, "/etc/default/kubelet", "KUBELET_EXTRA_ARGS=--cloud-config=/x\n")
	machinetest.Put(t, m, "/etc/kubernetes/manifests/vendor.yaml",
		"kind: Pod\nspec: {containers: [{name: a, envFrom: [{secretRef: {name: s}}]}], volumes: [{name: v, projected: {sources: [{downwardAPI: {}}]}}]}\n")
	machinetest.Put(t, m, "/etc/kubernetes/manifests/task.yaml", "kind: TaskRun\nspec: {serviceAccountName: a}\n")
	machinetest.Put(t, m, "/etc/kubernetes/manifests/broken.yaml", "{")
	machinetest.Put(t, m, machine.KubeadmFlags, "KUBELET_KUBEADM_ARGS=\"--pod-infra-container-image=pause:3\"\n")
	r, _ := phasestest.Run{Inputs: workflow.Inputs{Existing: true}}.Must(t, m)
	before := phasestest.Snapshot(t, m)
	facts, err := (&Upgrade{}).LiveFacts(t.Context(), r, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range facts.Nodes {
		if n.Name == "w1" && n.Manager != "" {
			t.Errorf("a worker's kubelet says which manager runs there: %s", n.Manager)
		}
	}
	plan, err := planner.New(*facts)
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(plan.Findings, func(f finding.Finding) bool { return f.ID == finding.UpgradeTarget }) {
		t.Errorf("a worker says which versions the API servers have: %v", plan.Findings)
	}
	if plan.Now != "v1.35.4" || plan.Then != "v1.36.3" || !plan.ForKubeadm() {
		t.Errorf("from %s to %s, for kubeadm %v", plan.Now, plan.Then, plan.ForKubeadm())
	}
	var found []string
	for _, f := range plan.Findings {
		found = append(found, string(f.Severity)+" "+string(f.ID)+" "+f.Object)
	}
	for _, want := range []string{
		"warning A6 ConfigMap/kube-system/kubeadm-config",
		"warning U5 ConfigMap/kube-system/kubeadm-config", // of kube-controller-manager
		"warning U5 ConfigMap/kube-system/kubeadm-config", // of kubeadm's own
		"warning U5 ConfigMap/kube-system/kubelet-config",
		"warning U5 ConfigMap/kube-system/kube-proxy",
		"error A5 cp1:/etc/default/kubelet:1",
		"warning U4 cp1:/var/lib/kubelet/kubeadm-flags.env:1",
		"warning A6 cp1:/etc/kubernetes/manifests/kube-apiserver.yaml",
		"warning A6 Pod/kube-system/kube-apiserver-cp2",
		"warning U7 ",
		"error A15 cp1:/etc/kubernetes/manifests/vendor.yaml",
	} {
		i := slices.Index(found, want)
		if i < 0 {
			t.Errorf("not found: %s", want)
			continue
		}
		found = slices.Delete(found, i, i+1)
	}
	t.Logf("beside that: %s", strings.Join(found, "\n"))
	for _, f := range found {
		if strings.HasSuffix(f, " Pod/kube-system/kube-apiserver-cp1") {
			t.Errorf("this machine's own static pod was found twice: %s", f)
		}
	}
	if diff := cmp.Diff(before, phasestest.Snapshot(t, m)); diff != "" {
		t.Errorf("files were written (-want +got):\n%s", diff)
	}
}

// TestCluster_UpgradeFacts_Refused: a quota that keeps new pods from kube-system is found before kubeadm's Job and the roll-out of its
// addons wait for theirs. Without it nothing is.
func TestCluster_UpgradeFacts_Refused(t *testing.T) {
	m := existingtest.Living(t)
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
	kubeadmsObjects(t, client)
	member(t, client, "cp1", "v1.35.4", true)
	labels := map[string]string{"k8s-app": kubeProxyName}
	proxy := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: kubeProxyName, Namespace: v1alpha1.Namespace}}
	proxy.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	proxy.Spec.Template.Labels = labels
	proxy.Spec.Template.Spec.Containers = []corev1.Container{{Name: "a", Image: "kube-proxy:v1.35.4"}}
	if _, err := client.AppsV1().DaemonSets(v1alpha1.Namespace).Create(t.Context(), proxy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.AppsV1().DaemonSets(v1alpha1.Namespace).Delete(context.WithoutCancel(t.Context()), kubeProxyName, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	refused := func() []finding.Finding {
		r, _ := phasestest.Run{Inputs: workflow.Inputs{Existing: true}}.Must(t, m)
		facts, err := (&Upgrade{}).LiveFacts(t.Context(), r, "")
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(facts.Troubles, func(f finding.Finding) bool { return f.ID != finding.WriteRefused })
	}
	if list := refused(); len(list) > 0 {
		t.Errorf("nothing is refused, and the facts say %v", list)
	}
	none := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	quotas := client.CoreV1().ResourceQuotas(v1alpha1.Namespace)
	quota, err := quotas.Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: none},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := quotas.Delete(context.WithoutCancel(t.Context()), "none", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none}
	if _, err := quotas.UpdateStatus(t.Context(), quota, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually := time.Now().Add(time.Minute) // the API server's admission sees it a moment later
	list := refused()
	for ; len(list) == 0 && time.Now().Before(eventually); list = refused() {
		time.Sleep(100 * time.Millisecond)
	}
	if len(list) != 1 || list[0].Object != "ResourceQuota/kube-system/none" || list[0].Severity != finding.SeverityError {
		t.Errorf("found %v", list)
	}
}

// Until it is applied, the record lags behind an upgrade.
func TestCluster_Apply_FollowsTheVersion(t *testing.T) {
	m := existingtest.Living(t)
	client := kubernetes.NewForConfigOrDie(phasestest.Cluster.Config)
	kubeadmsObjects(t, client)
	if out, changed, err := existingtest.ApplyRun(t, m, "", workflow.Inputs{}); err != nil || !changed {
		t.Fatalf("changed %v, %v\n%s", changed, err, out)
	}
	rec, err := workflow.ReadRecord(t.Context(), client)
	if err != nil || rec.KubernetesVersion != "v1.35.4" {
		t.Errorf("the record says %q, %v, want what kubeadm's live configuration says", rec.KubernetesVersion, err)
	}
	if out, changed, err := existingtest.ApplyRun(t, m, "", workflow.Inputs{}); err != nil || changed {
		t.Errorf("once more: changed %v, %v\n%s", changed, err, out)
	}
}

func TestUpgradeFacts_NoControlPlane(t *testing.T) {
	m, _ := machinetest.New(t)
	r, _ := phasestest.Run{Inputs: workflow.Inputs{Role: kubeadm.RoleInit, Existing: true}}.Must(t, m)
	if _, err := (&Upgrade{}).LiveFacts(t.Context(), r, "v1.36.3"); err == nil || !strings.Contains(err.Error(), "find the cluster of this machine") {
		t.Errorf("got %v", err)
	}
}
