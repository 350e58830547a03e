package nodes

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCauseOf_PodNetwork: a CNI plugin whose pods crash is not to be installed a second time.
func TestCauseOf_PodNetwork(t *testing.T) {
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-flannel", Name: "kube-flannel-ds"}}
	d.Status.DesiredNumberScheduled = 3
	d.Spec.Template.Spec.HostNetwork = true
	d.Spec.Template.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc/cni/net.d"}}}}
	crashes, is := PodNetworkOf(d)
	if _, other := PodNetworkOf(&appsv1.DaemonSet{}); !is || other {
		t.Fatalf("with a mount %v, without %v", is, other)
	}
	rolled, deleted := d.DeepCopy(), d.DeepCopy()
	rolled.Generation, deleted.DeletionTimestamp = 2, new(metav1.Now())
	for _, changing := range []*appsv1.DaemonSet{rolled, deleted} {
		if n, _ := PodNetworkOf(changing); !n.Changing || crashes.Changing {
			t.Errorf("generation %d, deleted %v: got %v", changing.Generation, changing.DeletionTimestamp, n.Changing)
		}
	}
	ready, unwanted := crashes, crashes
	ready.Ready = 3
	unwanted.Name, unwanted.Wanted = "kube-flannel-ds-arm", 0
	nowhere, elsewhere, here := crashes, crashes, crashes
	elsewhere.Unready = []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "kube-flannel-w2"}, Spec: corev1.PodSpec{NodeName: "w2"}}}
	here.Unready = append(slices.Clone(elsewhere.Unready),
		corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "kube-flannel-w1"}, Spec: corev1.PodSpec{NodeName: "w1"}})
	nowhere.Wanted = 0
	chained := elsewhere
	chained.Namespace, chained.Name = "istio-system", "istio-cni-node"
	node := newNode("w1", func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionFalse, Message: "NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized",
		}}
	})
	for _, tt := range []struct {
		name      string
		installed []PodNetwork
		do, next  string
	}{
		{"there is none", nil, "install a CNI plugin", ""},
		{"it is ready everywhere", []PodNetwork{ready}, "install a CNI plugin", ""},
		{"one for another architecture", []PodNetwork{unwanted, ready}, "install a CNI plugin", ""},
		{"its pods crash beside it", []PodNetwork{unwanted, crashes}, "correct what keeps", "kubectl -n kube-flannel describe daemonset kube-flannel-ds;"},
		{"no Node is selected", []PodNetwork{nowhere}, "correct what keeps", "kubectl -n kube-flannel describe daemonset kube-flannel-ds;"},
		{"its pod on another Node crashes", []PodNetwork{elsewhere}, "correct what keeps", "kubectl -n kube-flannel describe daemonset kube-flannel-ds; " +
			"kubectl -n kube-flannel get pods --field-selector spec.nodeName=w1 -o name | xargs -n 1 kubectl -n kube-flannel logs "},
		{"its pod on the Node crashes", []PodNetwork{here}, "correct what keeps", "kubectl -n kube-flannel describe daemonset kube-flannel-ds; " +
			"kubectl -n kube-flannel logs kube-flannel-w1 --all-containers --tail=20"},
		{"its pod on the Node crashes, and one of a plugin that is chained to it elsewhere", []PodNetwork{chained, here}, "correct what keeps", "kubectl -n kube-flannel describe daemonset kube-flannel-ds; " +
			"kubectl -n kube-flannel logs kube-flannel-w1 --all-containers --tail=20"},
		{"its pods crash", []PodNetwork{ready, crashes}, "correct what keeps", "kubectl -n kube-flannel describe daemonset kube-flannel-ds"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := causeOf(Status{Node: "w1", State: Addressed}, node, &evidence{networks: tt.installed})
			named := strings.Contains(f.Message, "DaemonSet/kube-flannel/kube-flannel-ds brings a CNI plugin, and 0 of ")
			if !strings.HasPrefix(f.Do, tt.do) || !strings.HasPrefix(f.Next, tt.next) || named != (tt.next != "") {
				t.Errorf("got %+v", f)
			}
		})
	}
}
