package components

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// served are the two Services of newWorld, and how many endpoints of each are ready.
type served struct {
	api, dns       *corev1.Service
	apis, dnsReady int
	// portsOfDNS are the names of the endpoints' ports.
	portsOfDNS []string
	address    string
}

func service(namespace, name, address string, ports ...corev1.ServicePort) *corev1.Service {
	s := &corev1.Service{}
	s.Namespace, s.Name, s.Spec.ClusterIP, s.Spec.Ports = namespace, name, address, ports
	return s
}

func endpoints(ready int, ports ...string) []discoveryv1.EndpointSlice {
	slice := discoveryv1.EndpointSlice{}
	for i, name := range ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &name, Port: new(int32(1000 + i))}) //nolint:gosec // a few
	}
	for i := range 3 {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf("10.0.0.%d", i)}, Conditions: discoveryv1.EndpointConditions{Ready: new(i < ready)},
		})
	}
	return []discoveryv1.EndpointSlice{slice}
}

// advertise gives each API server the address of its Node.
func advertise(w *world) {
	for i := range 3 {
		address := fmt.Sprintf("10.0.0.%d", i)
		with(APIServer, w.Nodes[i].Name, "--service-cluster-ip-range=10.96.0.0/12", "--advertise-address="+address)(w)
		w.Nodes[i].Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	}
}

// TestJudge_Services has what a field of a Service breaks while all pods run.
func TestJudge_Services(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*served, *world)
		want   string
	}{
		{"all is well", func(*served, *world) {}, ""},
		{"no API server is an endpoint", func(s *served, _ *world) { s.apis = 0 }, "Service/default/kubernetes: no API server is among its endpoints"},
		{"each API server is an endpoint", func(_ *served, w *world) { advertise(w) }, ""},
		{"one is missing", func(s *served, w *world) {
			advertise(w)
			s.apis = 2
		}, "Service/default/kubernetes: the API server on cp3 (10.0.0.2) is not among its endpoints"},
		{"one that has just been started is missing", func(s *served, w *world) {
			advertise(w)
			s.apis = 2
			w.named(APIServer + "-cp3")[0].Status.Conditions[0].LastTransitionTime = ago(10 * time.Second)
		}, ""},
		{"a Node that joins has one, and not yet its label", func(_ *served, w *world) {
			advertise(w)
			w.without(APIServer + "-cp3")
			w.Nodes[2].Labels = nil
		}, ""},
		{"a Node that joins has one on another network, and not yet its label", func(_ *served, w *world) {
			advertise(w)
			w.Nodes[2].Labels, w.Nodes[2].Status.Addresses[0].Address = nil, "192.0.2.7"
		}, ""},
		{"a control plane has just joined, and shows no API server", func(_ *served, w *world) {
			advertise(w)
			w.without(APIServer + "-cp3")
			w.Nodes[2].Status.Addresses, w.Nodes[2].CreationTimestamp = nil, ago(20*time.Second)
		}, ""},
		{"one is of no API server that is seen", func(_ *served, w *world) {
			advertise(w)
			for _, of := range []string{APIServer, ControllerManager, Scheduler, Etcd, Proxy} {
				w.without(of + "-cp3")
			}
			w.Nodes = slices.Delete(w.Nodes, 2, 3)
			w.daemonSets[0].Status.DesiredNumberScheduled, w.daemonSets[0].Status.NumberReady = 4, 4
		}, "warning Service/default/kubernetes: no API server that is seen here advertises its endpoint 10.0.0.2"},
		{"they are on a network that Nodes do not state", func(_ *served, w *world) {
			advertise(w)
			for i := range 3 {
				w.Nodes[i].Status.Addresses[0].Address = fmt.Sprintf("192.0.2.%d", i)
			}
		}, ""},
		{"one is missing, and its Node does not state its address", func(s *served, w *world) {
			advertise(w)
			s.apis = 2
			w.Nodes[2].Status.Addresses[0].Address = "192.0.2.7"
		}, "the API server on cp3 (10.0.0.2) is not among its endpoints, and its Node does not state that address"},
		{"two have one address", func(s *served, w *world) {
			advertise(w)
			s.apis = 2
			with(APIServer, "cp3", "--service-cluster-ip-range=10.96.0.0/12", "--advertise-address=10.0.0.1")(w)
		}, "warning Service/default/kubernetes: the API servers on cp2, cp3 have the same --advertise-address=10.0.0.1"},
		{"the API server's Service is gone", func(s *served, _ *world) { s.api = nil }, "Service/default/kubernetes: it does not exist"},
		{"the Service of DNS is gone", func(s *served, _ *world) { s.dns = nil }, "Service/kube-system/kube-dns: no Service with port UDP 53 has the address 10.96.0.10"},
		{"a cache on each Node", func(s *served, _ *world) { s.address = "169.254.25.10" }, ""},
		{"a cache on each Node, and a Service of another name", func(s *served, _ *world) { s.dns, s.address = nil, "169.254.25.10" }, ""},
		{"another name", func(s *served, _ *world) { s.dns.Name = "coredns" }, ""},
		{"an IPv6 address that is written otherwise", func(s *served, _ *world) { s.dns.Spec.ClusterIP, s.address = "fd00:10:96::a", "fd00:10:96::000a" }, ""},
		{"the second family", func(s *served, _ *world) {
			s.dns.Spec.ClusterIPs, s.address = []string{"10.96.0.10", "fd00:10:96::a"}, "fd00:10:96::a"
		}, ""},
		{"Services could not be listed", func(s *served, w *world) { s.dns, s.api, w.ServicesSeen = nil, nil, false }, ""},
		{"nothing answers for DNS, which other findings say", func(s *served, w *world) { s.dns, w.deployments[0].Status.ReadyReplicas = nil, 0; w.crash("coredns") }, "Deployment/kube-system/coredns"},
		{"the Deployment is deleted, and the ConfigMap and the Service stay", func(s *served, w *world) {
			s.dnsReady, w.deployments = 0, nil
			w.without(DNS)
		}, "its port UDP 53 has no ready endpoint, and there is no Deployment coredns"},
		{"a workload of another name resolves", func(_ *served, w *world) {
			w.deployments[0].Name = "resolver"
			w.without(DNS)
		}, ""},
		{"a workload of another name does not resolve, which is found of it", func(s *served, w *world) {
			s.dnsReady, w.deployments[0].Name, w.deployments[0].Status.ReadyReplicas = 0, "resolver", 0
			for _, p := range w.named(DNS) {
				p.Labels = map[string]string{"k8s-app": "kube-dns"}
				made(p, "ReplicaSet", "resolver-5d9f")
			}
			w.crash(DNS)
		}, "Deployment/kube-system/resolver: resolver: 0 of 2"},
		{"DNS was left out", func(s *served, w *world) {
			s.dns, w.deployments, w.configured = nil, nil, []string{Proxy}
			w.without(DNS)
		}, ""},
		{"Deployment and Service are deleted", func(s *served, w *world) {
			s.dns, w.deployments = nil, nil
			w.without(DNS)
		}, "no Service with port UDP 53 has the address 10.96.0.10"},
		{"a selector without pods", func(s *served, _ *world) { s.dnsReady = 0 }, "its port UDP 53 has no ready endpoint"},
		{"a port that pods do not have", func(s *served, _ *world) { s.portsOfDNS = []string{"dns-tcp"} }, "its port UDP 53 has no ready endpoint"},
		{"another number", func(s *served, _ *world) { s.dns.Spec.Ports[0].Port = 54 }, "no Service with port UDP 53 has the address 10.96.0.10"},
		{"no TCP", func(s *served, _ *world) { s.dns.Spec.Ports[1].Port = 54 }, "it has no port TCP 53"},
		{"another protocol", func(s *served, _ *world) { s.dns.Spec.Ports[0].Protocol = corev1.ProtocolTCP }, "no Service with port UDP 53 has the address"},
		{"another address than kubelets tell pods", func(s *served, _ *world) { s.address = "10.96.0.11" }, "no Service with port UDP 53 has the address 10.96.0.11"},
		{"a cluster of another installer", func(s *served, w *world) { s.dns, s.apis, w.Kubeadm = nil, 0, false }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &served{
				api: service("default", "kubernetes", "10.96.0.1", corev1.ServicePort{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP}),
				dns: service("kube-system", "kube-dns", "10.96.0.10", corev1.ServicePort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP},
					corev1.ServicePort{Name: "dns-tcp", Port: 53, Protocol: corev1.ProtocolTCP}),
				apis: 3, dnsReady: 2, portsOfDNS: []string{"dns", "dns-tcp"}, address: "10.96.0.10",
			}
			w := newWorld()
			w.ServicesSeen = true
			tt.change(s, w)
			w.DNSAddress = s.address
			c := Collector{Trim: func(*corev1.Pod) {}}
			for _, p := range w.pods {
				c.Pod(p)
			}
			for _, d := range w.deployments {
				c.Deployment(d)
			}
			c.DaemonSet(w.daemonSets[0])
			for _, name := range w.configured {
				c.Configured(name)
			}
			for i, depended := range []*corev1.Service{s.api, s.dns} {
				if depended != nil {
					c.Served(depended)
					of := Depended()[i]
					c.Endpoints(of, map[string][]discoveryv1.EndpointSlice{
						"kubernetes": endpoints(s.apis, "https"), "kube-dns": endpoints(s.dnsReady, s.portsOfDNS...),
					}[of.Name])
				}
			}
			var got []string
			for _, f := range judgeAll(c.Seen(w.Nodes), w.Cluster) {
				got = append(got, string(f.Severity)+" "+f.Object+": "+f.Message)
			}
			if all := strings.Join(got, "\n"); len(got) > 1 || tt.want == "" && len(got) > 0 || !strings.Contains(all, tt.want) {
				t.Errorf("got %q, want %q", all, tt.want)
			}
		})
	}
}

// TestCollector_Resolvers: a host of virtual clusters has a Service of DNS for each of them, before kube-system's by name.
func TestCollector_Resolvers(t *testing.T) {
	w := newWorld()
	w.ServicesSeen, w.DNSAddress = true, "10.96.0.10"
	c := Collector{Trim: func(*corev1.Pod) {}}
	for _, d := range w.deployments {
		c.Deployment(d)
	}
	dns := corev1.ServicePort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}
	c.Served(service("default", "kubernetes", "10.96.0.1", corev1.ServicePort{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP}))
	for range mostResolvers + 5 {
		c.Served(service("a-tenant", "kube-dns", "10.100.0.1", dns))
	}
	c.Served(service(v1alpha1.Namespace, "coredns", "10.96.0.10", dns))
	j := judge{c.Seen(w.Nodes), w.Cluster}
	if list := j.services(); len(list) != 0 {
		t.Errorf("got %+v", list)
	}
	if len(c.seen.Resolvers) != mostResolvers+1 {
		t.Errorf("%d are kept", len(c.seen.Resolvers))
	}
}
