package phases

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
)

// who lists the kinds of those who have the manager's permissions.
func who(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	binding, err := client.RbacV1().ClusterRoleBindings().Get(t.Context(), "ccmadm:onprem", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, s := range binding.Subjects {
		kinds = append(kinds, s.Kind)
	}
	return strings.Join(kinds, " ")
}

// managers lists the kinds of managers that there are.
func managers(t *testing.T, client kubernetes.Interface, m *machine.Machine) string {
	t.Helper()
	var kinds []string
	if machinetest.Content(m, machine.CCMManifest) != "" {
		kinds = append(kinds, "StaticPod")
	}
	for _, mode := range []v1alpha1.Mode{v1alpha1.ModeDaemonSet, v1alpha1.ModeDeployment} {
		_, err := getWorkload(t.Context(), client, mode, "onprem-cloud-controller-manager")
		if err == nil {
			kinds = append(kinds, string(mode))
		} else if !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	return strings.Join(kinds, " ")
}

func TestCluster_Apply_EveryChangeOfMode(t *testing.T) {
	m := livingAs(t, v1alpha1.CloudConfiguration{Provider: "onprem", Mode: v1alpha1.ModeDaemonSet, ClusterName: "ber1"})
	client := kubernetes.NewForConfigOrDie(cluster.Config)
	for _, mode := range []v1alpha1.Mode{"StaticPod", "Deployment", "StaticPod", "DaemonSet", "Deployment", "DaemonSet"} {
		file := cloudDocument + "mode: " + string(mode) + "\n"
		if shown, differs, err := applyRun(t, m, file, Options{DryRun: true}); err != nil || !differs {
			t.Fatalf("diff of mode %s: differs %v, %v\n%s", mode, differs, err, shown)
		}
		out, _, err := applyRun(t, m, file, Options{Command: "apply"})
		if err != nil {
			t.Fatalf("mode %s: %v\n%s", mode, err, out)
		}
		want := "ServiceAccount"
		if mode == v1alpha1.ModeStaticPod {
			want = "User"
		}
		if got := who(t, client); got != want || managers(t, client, m) != string(mode) {
			t.Errorf("mode %s: managers %s, permissions of %s\n%s", mode, managers(t, client, m), got, out)
		}
		if identity := machinetest.Content(m, machine.CCMKubeconfig) != ""; identity != (mode == v1alpha1.ModeStaticPod) {
			t.Errorf("mode %s: there is an identity of a static pod: %v", mode, identity)
		}
		rec, err := readRecord(t.Context(), client)
		if err != nil || rec.Configuration.Mode != mode {
			t.Errorf("record of mode %s: %v", rec.Configuration.Mode, err)
		}
		if out, changed, err := applyRun(t, m, "", Options{Command: "apply"}); err != nil || changed {
			t.Errorf("mode %s, once more: changed %v, %v\n%s", mode, changed, err, out)
		}
	}
	if runs, text := journalOf(t); len(runs) != 6 || !strings.Contains(text, "would remove "+machine.CCMManifest) {
		t.Errorf("%d runs in the journal\n%s", len(runs), text)
	}
}

// With an external CA the static pod's identity is the administrator's, and stays.
func TestCluster_Apply_ModeWithAnExternalCA(t *testing.T) {
	m := livingAs(t, v1alpha1.CloudConfiguration{Provider: "onprem", Mode: v1alpha1.ModeDaemonSet, ClusterName: "ber1"})
	if out, _, err := applyRun(t, m, cloudDocument+"mode: StaticPod\n", Options{}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.Remove(m.Path(machine.PKIDir + "/ca.key")); err != nil {
		t.Fatal(err)
	}
	identity := machinetest.Content(m, machine.CCMKubeconfig)
	for _, mode := range []string{"DaemonSet", "StaticPod"} {
		out, _, err := applyRun(t, m, cloudDocument+"mode: "+mode+"\n", Options{})
		if err != nil || machinetest.Content(m, machine.CCMKubeconfig) != identity {
			t.Fatalf("mode %s: %v\n%s", mode, err, out)
		}
	}
	if _, _, err := applyRun(t, m, cloudDocument+"mode: DaemonSet\n", Options{}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(m.Path(machine.CCMKubeconfig)); err != nil {
		t.Fatal(err)
	}
	_, changed, err := applyRun(t, m, cloudDocument+"mode: StaticPod\n", Options{})
	wantError(t, err, "has no ca.key", finding.ExitPreflight)
	if changed {
		t.Error("something was changed")
	}
}

// While another control plane has its static pod, that keeps its permissions.
func TestCluster_Apply_AStaticPodElsewhere(t *testing.T) {
	m := livingAs(t, v1alpha1.CloudConfiguration{Provider: "onprem", Mode: v1alpha1.ModeDaemonSet, ClusterName: "ber1"})
	client := kubernetes.NewForConfigOrDie(cluster.Config)
	file := cloudDocument + "mode: StaticPod\n"
	if out, _, err := applyRun(t, m, file, Options{}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	pod, err := readStaticPod(m, machine.CCMManifest)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("there", func(t *testing.T) {
		addNode(t, client, "cp2", "198.18.0.12", map[string]string{v1alpha1.ControlPlaneLabel: ""})
		mirrored(t, client, pod, "cp2", func(*corev1.Pod) {})
		out, _, err := applyRun(t, m, cloudDocument+"mode: DaemonSet\n", Options{})
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if got := who(t, client); got != "User ServiceAccount" {
			t.Errorf("permissions of %s", got)
		}
		if out, changed, err := applyRun(t, m, "", Options{}); err != nil || changed {
			t.Errorf("once more: changed %v, %v\n%s", changed, err, out)
		}
	})
	addNode(t, client, "w1", "198.18.0.101", nil)
	mirrored(t, client, pod, "w1", func(*corev1.Pod) {}) // a worker may show what it will
	out, changed, err := applyRun(t, m, "", Options{})
	if err != nil || !changed || who(t, client) != "ServiceAccount" {
		t.Errorf("once it is gone: changed %v, %v, permissions of %s\n%s", changed, err, who(t, client), out)
	}
	const name = "onprem-cloud-controller-manager"
	workload := manager{mode: v1alpha1.ModeDaemonSet, name: name}
	if err := workload.runs(client)(t.Context()); err == nil ||
		!strings.HasPrefix(err.Error(), "DaemonSet/kube-system/"+name) {
		t.Errorf("the whole workload is not asked for: %v", err)
	}
}

// A control plane whose Node was deleted and registered again has no label, and its static pod keeps its permissions.
func TestCluster_Apply_AStaticPodWithoutTheLabel(t *testing.T) {
	m := livingAs(t, v1alpha1.CloudConfiguration{Provider: "onprem", Mode: v1alpha1.ModeDaemonSet, ClusterName: "ber1"})
	client := kubernetes.NewForConfigOrDie(cluster.Config)
	if out, _, err := applyRun(t, m, cloudDocument+"mode: StaticPod\n", Options{}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	pod, err := readStaticPod(m, machine.CCMManifest)
	if err != nil {
		t.Fatal(err)
	}
	addNode(t, client, "cp2", "198.18.0.12", nil)
	mirrored(t, client, pod, "cp2", func(*corev1.Pod) {})
	showAPIServer(t, client, "cp2")
	out, _, err := applyRun(t, m, cloudDocument+"mode: DaemonSet\n", Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := who(t, client); got != "User ServiceAccount" {
		t.Errorf("permissions of %s", got)
	}
	var said bytes.Buffer
	d := &Data{Streams: Streams{Out: &said, Err: &said}}
	if err := (&manager{node: "cp1"}).nameOthers(t.Context(), d, client); err != nil {
		t.Fatal(err)
	}
	const want = "static pod is still on Node/cp2"
	const hint = "kubectl label node cp2 node-role.kubernetes.io/control-plane=;"
	if !strings.Contains(said.String(), want) || !strings.Contains(said.String(), hint) {
		t.Errorf("it says %s", &said)
	}
}

// showAPIServer is what the kubelet of a control plane shows.
func showAPIServer(t *testing.T, client kubernetes.Interface, node string) {
	t.Helper()
	made(t, client.CoreV1().Pods("kube-system"), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "kube-apiserver-" + node, Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"},
			Labels: map[string]string{v1alpha1.ComponentLabel: "kube-apiserver", "tier": "control-plane"},
		},
		Spec: corev1.PodSpec{
			NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "x"}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	})
}

// What cannot be asked is not gone: neither permissions nor files are taken away.
func TestCluster_Apply_PodsCannotBeAsked(t *testing.T) {
	m := livingAs(t, v1alpha1.CloudConfiguration{Provider: "onprem", Mode: v1alpha1.ModeDaemonSet, ClusterName: "ber1"})
	client := kubernetes.NewForConfigOrDie(cluster.Config)
	if out, _, err := applyRun(t, m, cloudDocument+"mode: StaticPod\n", Options{}); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	machinetest.Put(t, m, machine.AdminConf, kubeconfigText(t, withoutPods(t)))
	before := snapshot(t, m)
	_, changed, err := applyRun(t, m, cloudDocument+"mode: DaemonSet\n", Options{})
	if err == nil || changed || !strings.Contains(err.Error(), "list the static pods of the cloud-controller-manager") {
		t.Errorf("changed %v, %v", changed, err)
	}
	got := managers(t, client, m) + " " + who(t, client)
	if got != "StaticPod User" || len(snapshot(t, m)) != len(before) {
		t.Errorf("managers, and whose permissions: %s", got)
	}
}

// withoutPods is the API server behind a proxy that answers 503 to every question for pods.
func withoutPods(t *testing.T) *rest.Config {
	return proxied(t, func(w http.ResponseWriter, r *http.Request) bool {
		answered := strings.HasSuffix(r.URL.Path, "/pods")
		if answered {
			http.Error(w, "no", http.StatusServiceUnavailable)
		}
		return answered
	})
}

// proxied is the API server behind a proxy that answers some requests itself, and passes others on.
func proxied(t *testing.T, answer func(http.ResponseWriter, *http.Request) bool) *rest.Config {
	t.Helper()
	target, err := url.Parse(cluster.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	if proxy.Transport, err = rest.TransportFor(cluster.Config); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !answer(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}
