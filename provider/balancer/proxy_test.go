package balancer

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
)

const ipvsMode = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: ipvs\n"

// In mode ipvs kube-proxy would bind what is published on every Node: no Node may lose another one by a Service.
func TestStatus_ProxyBinds(t *testing.T) {
	const both = "198.18.0.1,198.18.0.2"
	onNodes := func(w *world) { w.add("web") }
	there := func(w *world) { w.add("web", withStatus("198.18.0.1")) }
	pooled := func(w *world) {
		w.pools = append(w.pools, addressPool("p", "192.0.2.1"))
		w.add("web")
	}
	for _, tt := range []struct {
		name   string
		nodes  []string
		config string
		world  func(*world)
		want   string // addresses
		reason string
	}{
		{"nftables", nil, "mode: nftables\n", onNodes, both, allocator.NodeIPReason},
		{"no mode", nil, "", onNodes, both, allocator.NodeIPReason},
		{"ipvs", nil, ipvsMode, onNodes, "", "ProxyBinds"},
		{"ipvs, published by a former release", nil, ipvsMode, there, "", "ProxyBinds"},
		{"ipvs, one Node, which none else binds", []string{"198.18.0.1"}, ipvsMode, onNodes, "198.18.0.1", allocator.NodeIPReason},
		{"not to be read", nil, "mode: [", onNodes, "", "ProxyBinds"},
		{"not to be read, published", nil, "mode: [", there, both, allocator.NodeIPReason},
		{"a pool", nil, ipvsMode + "ipvs: {strictARP: true}\n", pooled, "192.0.2.1", allocator.AnnouncedReason},
		{"a pool, and every Node answers ARP", nil, ipvsMode, pooled, "", "ProxyBinds"},
		{"a pool, published by a former release, and every Node answers ARP", nil, ipvsMode, func(w *world) {
			pooled(w)
			s := w.services[types.NamespacedName{Namespace: "default", Name: "web"}]
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
			s.Annotations[v1alpha1.AllocatedAnnotation] = "192.0.2.1"
		}, "192.0.2.1", "ProxyBinds"},
		{"a pool by BGP", nil, ipvsMode, func(w *world) {
			pooled(w)
			w.pools[0].Spec.Level = v1alpha1.LevelBGP
		}, "192.0.2.1", allocator.AnnouncedReason},
		{"a pool, not to be read", nil, "mode: [", pooled, "192.0.2.1", allocator.AnnouncedReason},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			w.setNodes("198.18.0.1", "198.18.0.2")
			if tt.nodes != nil {
				w.setNodes(tt.nodes...)
			}
			tt.world(w)
			w.proxy = evaluation.ReadProxy(&corev1.ConfigMap{Data: map[string]string{evaluation.ProxyKey: tt.config}})
			w.told("192.0.2.1")
			w.told("192.0.2.1")
			s := w.services[types.NamespacedName{Namespace: "default", Name: "web"}]
			if got := w.has("web"); got != tt.want || allocator.Condition(s) == nil || allocator.Condition(s).Reason != tt.reason {
				t.Errorf("has %q, and is said %+v; want %q, %s", got, allocator.Condition(s), tt.want, tt.reason)
			}
		})
	}
}

// A port is that of the Service that was published with it, however old the one is that asks for it.
func TestPorts_AreNotTakenByAnEdit(t *testing.T) {
	w := newWorld()
	w.setNodes("198.18.0.1")
	older := w.add("older", onPort(8081))
	w.add("younger", onPort(443))
	w.told()
	older.Spec.Ports[0].Port = 443
	w.services[allocator.NameOf(older)].Spec.Ports[0].Port = 443
	for range 2 {
		w.told()
		if got := w.has("older") + "|" + w.has("younger"); got != "|198.18.0.1" {
			t.Fatalf("the older one, and the younger one whose port it wants, have %s", got)
		}
	}
	delete(w.services, types.NamespacedName{Namespace: "default", Name: "younger"})
	if w.told(); w.has("older") != "198.18.0.1" {
		t.Error("a port that is free is nobody's")
	}
}

// An address of a pool is none of the Nodes': its Service has no port of theirs, however old it is.
func TestPorts_AreNotTakenFromAPool(t *testing.T) {
	w := newWorld()
	w.setNodes("198.18.0.1")
	w.add("older", withStatus("192.0.2.1"), annotated(v1alpha1.LevelAnnotation, "NodeIP"))
	w.add("younger", withStatus("198.18.0.1"))
	w.told()
	if got := w.has("older") + "|" + w.has("younger"); got != "|198.18.0.1" {
		t.Errorf("the older one, and the younger one whose port it wants, have %s", got)
	}
}

// A Service of a former release, which has written no ports, keeps those that it has, and they are written.
func TestPorts_OfAFormerRelease(t *testing.T) {
	w := newWorld()
	w.setNodes("198.18.0.1")
	w.add("unpublished")
	w.add("web", withStatus("198.18.0.1"))
	w.told()
	if got := w.has("unpublished") + "|" + w.has("web"); got != "|198.18.0.1" {
		t.Errorf("an older one that has nothing, and the one that has the port: %s", got)
	}
	ingress := w.services[types.NamespacedName{Namespace: "default", Name: "web"}].Status.LoadBalancer.Ingress
	if len(ingress) != 1 || len(ingress[0].Ports) != 1 || ingress[0].Ports[0].Port != 80 {
		t.Errorf("published is %+v", ingress)
	}
}
