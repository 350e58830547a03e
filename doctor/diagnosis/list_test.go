package diagnosis

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/agreement"
	"github.com/ccmadm/ccmadm/doctor/components"
)

// Somebody whom the API server does not know is told so in one wording, whichever question was answered first. Of an
// answer that is taken raw, client-go makes another message.
func TestUnseen_Unauthorized(t *testing.T) {
	for name, err := range map[string]error{
		"an object": apierrors.NewUnauthorized("Unauthorized"),
		"raw":       apierrors.NewGenericServerResponse(http.StatusUnauthorized, "get", schema.GroupResource{}, "", "", 0, true),
	} {
		if got := Unseen(name, err); got.Message != "Unauthorized" || !apierrors.IsUnauthorized(&got) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A ConfigMap that nothing reads, as one that is left of kube-proxy or CoreDNS, states no setting of the cluster.
func TestDisagreements_Unread(t *testing.T) {
	s := &Snapshot{Kubeadm: "networking:\n  dnsDomain: cluster.local\n  podSubnet: 10.244.0.0/16\n"}
	s.Settings = agreement.Settings{KubeletDomain: "cluster.local", Zones: "corp.local", ProxyCIDR: "10.42.0.0/16"}
	s.Components = &components.Seen{Workloads: []components.Workload{{Name: components.Proxy}, {Name: components.DNS}}}
	var objects []string
	for _, f := range disagreements(s) {
		objects = append(objects, f.Object)
	}
	slices.Sort(objects)
	if want := []string{"ConfigMap/kube-system/coredns", "ConfigMap/kube-system/kube-proxy"}; !slices.Equal(objects, want) {
		t.Errorf("with both: got %v, want %v", objects, want)
	}
	s.Components.Workloads = nil
	if list := disagreements(s); len(list) > 0 || s.Settings.Zones == "" {
		t.Errorf("without: got %+v of %+v", list, s.Settings)
	}
	s.NotSeen = []NotSeen{{What: partDaemonSets, Message: "forbidden"}, {What: partDeployments, Message: "forbidden"}}
	if list := disagreements(s); len(list) != 2 {
		t.Errorf("where it is not known: got %+v", list)
	}
}

// Which lines of etcd's log are new its machine says: the clock of those who ask may be another.
func TestUnreadyLogs_Etcd(t *testing.T) {
	since := make(chan string, 1)
	h := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { since <- r.URL.Query().Get("sinceSeconds") }))
	t.Cleanup(h.Close)
	l := newLooking(&Snapshot{Kubeadm: "kind: ClusterConfiguration", Nodes: []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "cp1"}}}})
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: v1alpha1.Namespace, Name: "etcd-cp1", Labels: map[string]string{v1alpha1.ComponentLabel: components.Etcd},
		Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"},
	}}
	p.Spec.NodeName, p.Status.Phase = "cp1", corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "etcd", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	l.parts.Pod(p)
	l.unreadyLogs(t.Context(), kubernetes.NewForConfigOrDie(&rest.Config{Host: h.URL, QPS: -1}))
	l.wg.Wait()
	select {
	case got := <-since:
		if got != "20" {
			t.Errorf("since %q, want 20 s", got)
		}
	default:
		t.Error("the log was not asked for")
	}
}
