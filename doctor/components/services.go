package components

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/templates"
)

// Service is one of the Services that every cluster depends on: the API server's, and that of DNS.
type Service struct {
	// Object is Service/NAMESPACE/NAME.
	Object string `json:"object"`
	// Address is its ClusterIP.
	Address string `json:"address,omitempty"`
	// Ports are PROTOCOL NUMBER, as "UDP 53"; Ready is how many endpoints of each are ready, nil: they could not be asked for.
	Ports []string       `json:"ports,omitempty"`
	Ready map[string]int `json:"ready,omitempty"`
	// Endpoints are the addresses that are ready, of the API server's.
	Endpoints []string `json:"endpoints,omitempty"`
	// names are those of the ports.
	names []string
}

// The Services.
const (
	kubernetesService = servicePrefix + "default/kubernetes"
	dnsService        = servicePrefix + v1alpha1.Namespace + "/kube-dns"
	servicePrefix     = "Service/"
)

// mostResolvers bounds what is kept of Services that may resolve names. The cluster's own is in kube-system, where all are kept: a host of
// virtual clusters has one more for each of them.
const mostResolvers = 20

// Served takes any Service, and keeps it where it is one that every cluster depends on.
func (c *Collector) Served(s *corev1.Service) {
	object := servicePrefix + s.Namespace + "/" + s.Name
	service := Service{Object: object, Address: s.Spec.ClusterIP}
	for _, p := range s.Spec.Ports {
		service.Ports, service.names = append(service.Ports, port(p.Protocol, p.Port)), append(service.names, p.Name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Contains(service.Ports, "UDP 53") && (s.Namespace == v1alpha1.Namespace || len(c.seen.Resolvers) < mostResolvers) {
		c.seen.Resolvers = append(c.seen.Resolvers, s.Spec.ClusterIP)
		if len(s.Spec.ClusterIPs) > 1 {
			c.seen.Resolvers = append(c.seen.Resolvers, s.Spec.ClusterIPs[1:]...)
		}
	}
	if object == kubernetesService || object == dnsService {
		c.seen.Services = append(c.seen.Services, service)
	}
}

func port(protocol corev1.Protocol, number int32) string {
	return string(protocol) + " " + strconv.Itoa(int(number))
}

// Depended are the Services that every cluster depends on.
func Depended() []types.NamespacedName {
	var list []types.NamespacedName
	for _, object := range []string{kubernetesService, dnsService} {
		namespace, name, _ := strings.Cut(strings.TrimPrefix(object, servicePrefix), "/")
		list = append(list, types.NamespacedName{Namespace: namespace, Name: name})
	}
	return list
}

// Endpoints takes the slices of a Service that every cluster depends on.
func (c *Collector) Endpoints(service types.NamespacedName, all []discoveryv1.EndpointSlice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.endpoints == nil {
		c.endpoints = map[string][]discoveryv1.EndpointSlice{}
	}
	c.endpoints[servicePrefix+service.String()] = all
}

// countReady counts the ready endpoints of each port. Endpoints have numbers of their own, those of pods: the name of a port says
// which of the Service's it is.
func (s *Service) countReady(all []discoveryv1.EndpointSlice) {
	s.Ready = map[string]int{}
	for i, name := range s.names {
		count := 0
		for _, slice := range all {
			named := slices.ContainsFunc(slice.Ports, func(p discoveryv1.EndpointPort) bool {
				return p.Port != nil && (p.Name == nil && name == "" || p.Name != nil && *p.Name == name)
			})
			for _, e := range slice.Endpoints {
				if named && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
					count++
				}
			}
		}
		s.Ready[s.Ports[i]] = count
	}
	for _, slice := range all {
		for _, e := range slice.Endpoints {
			if s.Object == kubernetesService && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				s.Endpoints = append(s.Endpoints, e.Addresses...)
			}
		}
	}
}

// servers compares the endpoints of the API server's Service with the API servers that kubeadm runs. Each writes itself among them, by its
// --advertise-address, and takes others out that do not renew their entry.
func (j *judge) servers(s *Service) []finding.Finding {
	pods := j.of(APIServer)
	var list []finding.Finding
	say := func(message, do string) {
		f := finding.ServiceWithoutPods.New(kubernetesService, message)
		f.Severity, f.Do, f.Next = finding.SeverityWarning, do, "kubectl get endpointslice kubernetes -o yaml"
		list = append(list, f)
	}
	const do = "correct --advertise-address of the API server, in its static pod and in kubeadm's ClusterConfiguration, or a firewall between it and etcd"
	advertised := map[netip.Addr][]string{} // by Nodes
	ready := 0
	for _, p := range pods {
		a, known := advertises(p)
		if !known {
			return nil // what it writes is not known
		}
		node := p.Spec.NodeName
		advertised[a] = append(advertised[a], node)
		works := nodes.IsPodReady(p) && j.Now.Sub(readySince(p)) > Settling
		if works {
			ready++
		}
		if works && len(s.Endpoints) > 0 && !has(s.Endpoints, a) {
			say(fmt.Sprintf("the API server on %s (%s) is not among its endpoints", node, a)+j.unstated(node, a), do)
		}
	}
	for _, a := range slices.SortedFunc(maps.Keys(advertised), netip.Addr.Compare) {
		if on := advertised[a]; len(on) > 1 {
			say(fmt.Sprintf("the API servers on %s have the same --advertise-address=%s: they are one endpoint, which stays while one of them runs",
				nodes.Some(on, 5), a), do)
		}
	}
	for _, e := range s.Endpoints {
		if a, err := netip.ParseAddr(e); len(pods) > 0 && err == nil && len(advertised[a.Unmap()]) == 0 && !j.mayAdvertise(a) {
			say("no API server that is seen here advertises its endpoint "+e,
				"on the machine with that address, if it is no control plane any more: kubeadm reset; if it is one: let its kubelet register it again")
		}
	}
	if n := s.Ready["TCP 443"]; len(s.Endpoints) == 0 && len(pods) > 0 && (n < ready || n > len(pods)) {
		say(fmt.Sprintf("it has %s, and %d API servers are ready", finding.Count(n, "endpoint"), ready), do)
	}
	return list
}

// advertises is the address that an API server writes among the endpoints, where its flags tell.
func advertises(p *corev1.Pod) (netip.Addr, bool) {
	c := templates.OwnContainer(&p.Spec, APIServer)
	a, err := netip.ParseAddr(argument(c, "advertise-address"))
	return a.Unmap(), err == nil && argument(c, "endpoint-reconciler-type") == ""
}

// unstated says that a Node does not state the address that its API server advertises. Alone that is no fault: the address may be on a
// network of its own.
func (j *judge) unstated(node string, advertised netip.Addr) string {
	n := j.node(node)
	if n == nil || len(nodestatus.InternalIPs(n)) == 0 || hasAddress(n, advertised) {
		return ""
	}
	return ", and its Node does not state that address"
}

// mayAdvertise tells whether an address may be that of an API server which is not seen: its machine joins, and its Node gets the label of
// control planes last.
func (j *judge) mayAdvertise(a netip.Addr) bool {
	return has(j.Joining, a) || slices.ContainsFunc(j.Nodes, func(n corev1.Node) bool {
		return hasAddress(&n, a) || nodes.IsControlPlane(&n) && j.Now.Sub(n.CreationTimestamp.Time) <= Settling
	})
}

func has(list []string, address netip.Addr) bool {
	return slices.ContainsFunc(list, func(text string) bool {
		a, err := netip.ParseAddr(text)
		return err == nil && a.Unmap() == address.Unmap()
	})
}

// hasAddress tells whether a Node states an address, of any type.
func hasAddress(n *corev1.Node, address netip.Addr) bool {
	var all []string
	for _, a := range n.Status.Addresses {
		all = append(all, a.Address)
	}
	return has(all, address)
}

// services finds the Services that every cluster depends on and that lead nowhere. Who serves them is judged elsewhere: where no pod of
// DNS is ready, that is the cause.
func (j *judge) services() []finding.Finding {
	if !j.Kubeadm || !j.ServicesSeen {
		return nil
	}
	var list []finding.Finding
	if s := j.service(kubernetesService); s == nil {
		f := finding.ServiceWithoutPods.New(kubernetesService, "it does not exist: pods do not reach the API server by its address until an API server makes it again")
		f.Next = "kubectl get service kubernetes"
		list = append(list, f)
	} else if s.Ready != nil && none(s.Ready) {
		f := finding.ServiceWithoutPods.New(kubernetesService, "no API server is among its endpoints: pods do not reach one by "+s.Address)
		f.Next = "kubectl get endpointslice kubernetes -o yaml"
		list = append(list, f)
	} else if s.Ready != nil {
		list = j.servers(s)
	}
	return append(list, j.dns()...)
}

func (j *judge) service(object string) *Service {
	i := slices.IndexFunc(j.Services, func(s Service) bool { return s.Object == object })
	if i < 0 {
		return nil
	}
	return &j.Services[i]
}

func none(ready map[string]int) bool {
	for _, n := range ready {
		if n > 0 {
			return false
		}
	}
	return true
}

// dns asks whether what pods ask is a Service that leads to pods. A cache on each Node has an address of its own, which is link-local
// (NodeLocal DNSCache, Kubespray), and other installers give the Service of CoreDNS another name: these are not judged.
func (j *judge) dns() []finding.Finding {
	asked, err := netip.ParseAddr(j.DNSAddress)
	if err != nil || asked.IsLinkLocalUnicast() || asked.IsLoopback() || slices.ContainsFunc(j.Workloads, j.dnsIsDown) {
		return nil
	}
	is := func(text string) bool {
		address, err := netip.ParseAddr(text)
		return err == nil && address == asked
	}
	if !slices.ContainsFunc(j.Resolvers, is) {
		if !j.Has(DNS) && !slices.Contains(j.Configured, DNS) {
			return nil // it was left out: --skip-phases addon/coredns
		}
		f := finding.ServiceWithoutPods.New(dnsService, "no Service with port UDP 53 has the address "+j.DNSAddress+
			", which kubelets tell pods to ask (clusterDNS): names of Services do not resolve")
		f.Next = "kubectl -n kube-system get service -o wide"
		return []finding.Finding{f}
	}
	s := j.service(dnsService)
	if s == nil || !is(s.Address) {
		return nil
	}
	for _, wanted := range []string{"UDP 53", "TCP 53"} {
		count, counted := s.Ready[wanted]
		switch {
		case !slices.Contains(s.Ports, wanted):
			return s.doesNotResolve("it has no port " + wanted)
		case counted && count == 0 && j.Has(DNS):
			return s.doesNotResolve("its port " + wanted + " has no ready endpoint, and pods of Deployment coredns are ready")
		case counted && count == 0:
			list := s.doesNotResolve("its port " + wanted + " has no ready endpoint, and there is no Deployment coredns")
			list[0].Do = "make the Deployment again, which keeps its ConfigMap, or give the Service the selector of what resolves names instead"
			list[0].Next = restoreAddon(DNS)
			return list
		}
	}
	return nil
}

// dnsIsDown tells whether a workload serves DNS and has no ready pod, which is found of the workload, or is about to be.
func (j *judge) dnsIsDown(w Workload) bool {
	return w.Ready == 0 && (w.Name == DNS || slices.ContainsFunc(j.Unready, func(p corev1.Pod) bool {
		kind, name := Owner(&p)
		return kind == w.Kind && name == w.Name && p.Labels["k8s-app"] == "kube-dns"
	}))
}

func (s *Service) doesNotResolve(wrong string) []finding.Finding {
	f := finding.ServiceWithoutPods.New(s.Object, wrong+": names of Services do not resolve in pods")
	f.Next = "kubectl -n kube-system get service kube-dns -o yaml"
	return []finding.Finding{f}
}
