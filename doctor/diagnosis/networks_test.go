package diagnosis

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/doctor/components"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/templates"
)

// TestDiagnose_NetworkUnavailable: who has set the condition, its reason says.
func TestDiagnose_NetworkUnavailable(t *testing.T) {
	without := func(reason string, since time.Duration) func(*Snapshot) {
		return func(s *Snapshot) {
			s.Components = &components.Seen{}
			s.Nodes[1].Status.Conditions = append(s.Nodes[1].Status.Conditions, corev1.NodeCondition{
				Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: ago(since),
			})
		}
	}
	lacks := func(namespace, name string, unready ...int) func(*Snapshot) {
		return func(s *Snapshot) {
			n := nodes.PodNetwork{Namespace: namespace, Name: name, Wanted: 4, Ready: 3}
			for _, i := range unready {
				p := pod(name, s.Nodes[i].Name)
				p.Namespace, p.CreationTimestamp = namespace, ago(time.Hour)
				p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: name}}
				p.Status.Conditions[0].Status, p.Status.Conditions[0].LastTransitionTime = corev1.ConditionFalse, ago(time.Hour)
				n.Unready = append(n.Unready, p)
			}
			s.Networks, s.Components = append(s.Networks, n), &components.Seen{}
		}
	}
	unlisted := func(s *Snapshot) { s.NotSeen = append(s.NotSeen, NotSeen{What: podsIn("calico-system")}) }
	ready := func(s *Snapshot) {
		s.Networks = []nodes.PodNetwork{{Namespace: "calico-system", Name: "calico-node", Wanted: 4, Ready: 4}}
	}
	notReady := func(s *Snapshot) { s.Nodes[1].Status.Conditions[0].Status = corev1.ConditionFalse }
	for _, tt := range []struct {
		name    string
		changes faults
		want    string
	}{
		{"no route", faults{without("NoRouteCreated", time.Hour)}, "F3(1)"},
		{"Calico is down, and its DaemonSet not known", faults{without("CalicoIsDown", time.Hour)}, "Q19(1)"},
		{"Calico is down, and its pod is not ready", faults{without("CalicoIsDown", time.Hour), lacks("calico-system", "calico-node", 1)}, "Q2(1)>Q19(1)"},
		{"Calico is down, and its pod on another Node is not ready", faults{without("CalicoIsDown", time.Hour), lacks("calico-system", "calico-node", 2)}, "Q2(1) Q19(1)"},
		{"Calico is down, and a plugin that is chained to it elsewhere", faults{
			without("CalicoIsDown", time.Hour), ready, lacks("istio-system", "istio-cni-node", 2),
		}, "Q2(1) Q19(1)"},
		{"Calico lacks a pod", faults{lacks("calico-system", "calico-node")}, "Q1(1)"},
		{"Calico lacks a pod, or one is not ready: they could not be listed", faults{lacks("calico-system", "calico-node"), unlisted}, ""},
		{"more namespaces lack pods than are listed", faults{
			lacks("a", "a"), lacks("b", "b"), lacks("c", "c"), lacks("d", "d"), lacks("e", "e"), lacks("f", "f"),
		}, ""},
		{"Calico restarts", faults{without("CalicoIsDown", 20*time.Second), ready}, ""},
		{"the Node is not Ready either", faults{without("CalicoIsDown", time.Hour), ready, notReady}, "W5(1)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := words(Diagnose(newSnapshot(templates.Deployment, 3, tt.changes...))); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestDiagnose_RoutesWithoutNetwork: a Node needs a network of pods where a controller makes a route to it.
func TestDiagnose_RoutesWithoutNetwork(t *testing.T) {
	virtual := func(s *Snapshot) {
		for i := range s.Nodes {
			s.Nodes[i].Spec.PodCIDRs = []string{"10.244." + string(rune('0'+i)) + ".0/24"}
		}
		s.Nodes[1].Spec.PodCIDRs, s.Nodes[1].Labels["type"] = nil, "virtual-kubelet"
	}
	for _, tt := range []struct {
		name    string
		changes faults
		want    string
	}{
		{"all", faults{args("--configure-cloud-routes=true")}, "F5(4)"},
		{"a virtual Node", faults{virtual, args("--configure-cloud-routes=true")}, ""},
		{"no controller of routes", faults{args("--configure-cloud-routes=true", "--controllers=*,-route")}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := words(Diagnose(newSnapshot(templates.Deployment, 3, tt.changes...))); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestGather_NetworkPods: the pods of a CNI plugin are listed where it lacks some, and what is kept are those that are not ready.
func TestGather_NetworkPods(t *testing.T) {
	s := newSnapshot(templates.Deployment, 1)
	s.Leases[0].Spec.RenewTime.Time = time.Now()
	d := appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-flannel", Name: "kube-flannel-ds"}}
	d.Spec.Template.Spec.HostNetwork = true
	d.Spec.Template.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/opt/cni/bin"}}}}
	d.Status.DesiredNumberScheduled = 2
	of := func(node string, owner string) corev1.Pod {
		p := pod(owner+"-"+node, node)
		p.Namespace, p.OwnerReferences = d.Namespace, []metav1.OwnerReference{{Kind: "DaemonSet", Name: owner}}
		return p
	}
	failing := of("w1", d.Name)
	failing.Status.Conditions[0].Status = corev1.ConditionFalse
	server := newAnswering(s)
	server.lists["/apis/apps/v1/daemonsets"] = appsv1.DaemonSetList{Items: []appsv1.DaemonSet{d}}
	server.lists["/api/v1/namespaces/kube-flannel/pods"] = corev1.PodList{Items: []corev1.Pod{of("cp1", d.Name), failing, of("w1", "other")}}
	h := httptest.NewServer(server)
	t.Cleanup(h.Close)
	seen, err := Gather(t.Context(), kubernetes.NewForConfigOrDie(&rest.Config{Host: h.URL, QPS: -1}))
	if err != nil {
		t.Fatal(err)
	}
	if len(seen.Networks) != 1 || seen.Networks[0].Ready != 1 || len(seen.Networks[0].Unready) != 1 || seen.Networks[0].Unready[0].Name != failing.Name {
		t.Errorf("it has seen %+v", seen.Networks)
	}
}

// TestDiagnose_NetworkUsedUp: a Node that gets no network since none is left lacks no CNI plugin.
func TestDiagnose_NetworkUsedUp(t *testing.T) {
	d := Diagnose(newSnapshot(templates.Deployment, 2, func(s *Snapshot) {
		p := pod("kube-controller-manager-cp1", "cp1")
		p.Labels = map[string]string{"component": components.ControllerManager}
		p.Spec.Containers[0].Name = components.ControllerManager
		p.Spec.Containers[0].Args = []string{"--allocate-node-cidrs=true", "--cluster-cidr=10.244.0.0/23"}
		s.Kubeadm, s.Components = "kind: ClusterConfiguration\n", &components.Seen{Static: []corev1.Pod{p}}
		s.Nodes[0].Spec.PodCIDRs, s.Nodes[1].Spec.PodCIDRs = []string{"10.244.0.0/24"}, []string{"10.244.1.0/24"}
		s.Nodes[2].Status.Conditions[0].Status, s.Nodes[2].Status.Conditions[0].Message = corev1.ConditionFalse, "cni plugin not initialized"
	}))
	if got := words(d); !strings.Contains(got, "F5(1)>W5(1)") {
		t.Errorf("got %s", got)
	}
}
