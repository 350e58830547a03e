package phasestest

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

// maker is a client of one kind.
type maker[T any] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// Made creates an object for the time of the test.
func Made[T metav1.Object](t *testing.T, c maker[T], object T) T {
	t.Helper()
	created, err := c.Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
		if err := c.Delete(context.WithoutCancel(t.Context()), object.GetName(), now); err != nil &&
			!apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	return created
}

// AddNode registers a Node with an InternalIP, and removes it after the test.
func AddNode(t *testing.T, client kubernetes.Interface, name, ip string, labels map[string]string) {
	t.Helper()
	node := Made(t, client.CoreV1().Nodes(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if _, err := client.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// CloudDocument begins a CloudConfiguration.
const CloudDocument = "apiVersion: ccmadm.dev/v1alpha1\nkind: CloudConfiguration\n"

// ArgsOf are the arguments of a DaemonSet's first container.
func ArgsOf(t *testing.T, get func(context.Context, string, metav1.GetOptions) (*appsv1.DaemonSet, error), name string) []string {
	t.Helper()
	set, err := get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return set.Spec.Template.Spec.Containers[0].Args
}

// TokenFile is a file with a token.
func TokenFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("a-token"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Newest is the newest run of the journal.
func Newest(runs []journal.Run) *journal.Run {
	if len(runs) == 0 {
		return &journal.Run{}
	}
	return &runs[len(runs)-1]
}

// Who lists the kinds of those who have the manager's permissions.
func Who(t *testing.T, client kubernetes.Interface) string {
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

// Managers lists the kinds of managers that there are.
func Managers(t *testing.T, client kubernetes.Interface, m *machine.Machine) string {
	t.Helper()
	var kinds []string
	if machinetest.Content(m, machine.CCMManifest) != "" {
		kinds = append(kinds, "StaticPod")
	}
	for _, mode := range []config.Mode{config.ModeDaemonSet, config.ModeDeployment} {
		_, err := record.GetWorkload(t.Context(), client, mode, "onprem-cloud-controller-manager")
		if err == nil {
			kinds = append(kinds, string(mode))
		} else if !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	return strings.Join(kinds, " ")
}

// ShowAPIServer is what the kubelet of a control plane shows.
func ShowAPIServer(t *testing.T, client kubernetes.Interface, node string) {
	t.Helper()
	Made(t, client.CoreV1().Pods("kube-system"), &corev1.Pod{
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

// Proxied is the API server behind a proxy that answers some requests itself, and passes others on.
func Proxied(t *testing.T, answer func(http.ResponseWriter, *http.Request) bool) *rest.Config {
	t.Helper()
	target, err := url.Parse(Cluster.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	if proxy.Transport, err = rest.TransportFor(Cluster.Config); err != nil {
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

// InOneRun runs phases one after the other.
func (r Run) InOneRun(t *testing.T, m *machine.Machine, phases ...workflow.Phase) (string, error) {
	t.Helper()
	run, out := r.Must(t, m)
	err := run.Do(t.Context(), phases)
	return out.String(), err
}

// OnpremHead begins an OnPremConfiguration.
const OnpremHead = "apiVersion: ccmadm.dev/v1alpha1\nkind: OnPremConfiguration\n"

// JournalOf returns the runs, and the text of all.
func JournalOf(t *testing.T) ([]journal.Run, string) {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(Cluster.Config)
	runs, err := journal.Read(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	cm, err := client.CoreV1().ConfigMaps("kube-system").Get(t.Context(), v1alpha1.JournalName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(cm.Data)) {
		text.WriteString(cm.Data[key])
	}
	return runs, text.String()
}

// Abandon takes the Lease of a run that was cut short for old at once.
func Abandon(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	err := client.CoordinationV1().Leases("kube-system").Delete(t.Context(), v1alpha1.RunLeaseName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// AwsImages are the manager's of the profile, by minor.
func AwsImages(t *testing.T) map[string]string {
	t.Helper()
	profile, err := templates.Load("aws")
	if err != nil {
		t.Fatal(err)
	}
	images := map[string]string{}
	for minor, tag := range profile.Image.Tags {
		images[minor] = profile.Image.Repository + ":" + tag
	}
	return images
}

// Mirrored creates the pod of a manifest as a kubelet would, with what the API server fills in.
func Mirrored(t *testing.T, client kubernetes.Interface, manifest *corev1.Pod, node string, change func(*corev1.Pod)) *corev1.Pod {
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
