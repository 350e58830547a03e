package frompods

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/doctor/probe"
)

const (
	// mostPeers bounds how many other Nodes' kubelets a Node asks for, mostServers how many API servers, and mostBalancers how many
	// Services: a pod has room for some hundred addresses.
	mostPeers, mostServers, mostBalancers = 20, 7, 10
	kubeletPort                           = 10250
	// planPatience is for all that is read before the first pod.
	planPatience = 30 * time.Second
)

// plan is what is to be asked, and by whom.
type plan struct {
	nodes []corev1.Node
	// common are asked by every Node.
	common   []probe.Target
	kubelets map[string][]probe.Target // by the Node that has them
	ca       string
	// notLooked is what no Node has to ask, or there is not; unknown is what was to be asked, and cannot be. Each says why.
	notLooked, unknown []string
}

func (p *plan) leaveOut(format string, args ...any) {
	p.notLooked = append(p.notLooked, fmt.Sprintf(format, args...))
}

func (p *plan) cannot(format string, args ...any) {
	p.unknown = append(p.unknown, fmt.Sprintf(format, args...))
}

// settings is what of kubeadm's ClusterConfiguration says what to ask.
type settings struct {
	ControlPlaneEndpoint string `json:"controlPlaneEndpoint"`
	Networking           struct {
		DNSDomain string `json:"dnsDomain"`
	} `json:"networking"`
}

// makePlan reads the cluster. The error says that its Nodes or the API server's Service cannot be asked for; what else cannot is left
// out, and said.
func (r *run) makePlan(ctx context.Context) (*plan, error) {
	ctx, cancel := context.WithTimeout(ctx, planPatience)
	defer cancel()
	p := &plan{kubelets: map[string][]probe.Target{}}
	err := send(ctx, func(ctx context.Context) error {
		list, err := r.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err == nil {
			p.nodes = list.Items
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	slices.SortStableFunc(p.nodes, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	service, err := r.Client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get Service/default/kubernetes: %w", err)
	}
	p.add(probe.Service, service, 443)
	r.addServers(ctx, p)
	s := r.settings(ctx, p)
	r.addDNS(ctx, p, s)
	r.addBalancers(ctx, p)
	p.addKubelets()
	root, err := r.Client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
	if err != nil {
		p.cannot("certificates of API servers: get ConfigMap/kube-system/kube-root-ca.crt: %v", err)
	} else {
		p.ca = root.Data["ca.crt"]
	}
	return p, nil
}

// settings adds the control plane's endpoint, too. It returns nil where they are not known.
func (r *run) settings(ctx context.Context, p *plan) *settings {
	var s settings
	cm, err := r.Client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, "kubeadm-config", metav1.GetOptions{})
	if err == nil {
		err = yaml.Unmarshal([]byte(cm.Data["ClusterConfiguration"]), &s)
	}
	switch {
	case apierrors.IsNotFound(err):
		p.leaveOut("the control plane's endpoint: the cluster has no ConfigMap/kube-system/kubeadm-config")
		return nil
	case err != nil:
		p.cannot("the control plane's endpoint: read ConfigMap/kube-system/kubeadm-config: %v", err)
		return nil
	case s.ControlPlaneEndpoint == "":
		p.leaveOut("the control plane's endpoint: the cluster has none, and its API servers are asked at their own addresses")
	default:
		address := s.ControlPlaneEndpoint
		if _, _, err := net.SplitHostPort(address); err != nil {
			address = net.JoinHostPort(strings.Trim(address, "[]"), "6443")
		}
		p.common = append(p.common, probe.Target{Subject: probe.Endpoint, Address: address})
	}
	return &s
}

// add adds the addresses of a Service.
func (p *plan) add(subject probe.Subject, s *corev1.Service, port int) {
	for _, ip := range s.Spec.ClusterIPs {
		if _, err := netip.ParseAddr(ip); err != nil { // None
			continue
		}
		p.common = append(p.common, probe.Target{
			Subject: subject, Object: "Service/" + s.Namespace + "/" + s.Name, Address: net.JoinHostPort(ip, strconv.Itoa(port)),
		})
	}
}

// addServers adds each API server at its own address.
func (r *run) addServers(ctx context.Context, p *plan) {
	slices, err := r.endpoints(ctx, metav1.NamespaceDefault, "kubernetes")
	if err != nil {
		p.cannot("API servers at their own addresses: %v", err)
		return
	}
	count := 0
	for _, s := range slices {
		for _, e := range s.Endpoints {
			for _, port := range s.Ports {
				if port.Port == nil || len(e.Addresses) == 0 {
					continue
				}
				if count++; count > mostServers {
					continue
				}
				p.common = append(p.common, probe.Target{
					Subject: probe.Server, Address: net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*port.Port))),
				})
			}
		}
	}
	if count > mostServers {
		p.leaveOut("%d of %d API servers at their own addresses", count-mostServers, count)
	}
}

func (r *run) endpoints(ctx context.Context, namespace, service string) ([]discoveryv1.EndpointSlice, error) {
	list, err := r.Client.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=" + service,
	})
	if err != nil {
		return nil, fmt.Errorf("list endpointslices of Service/%s/%s: %w", namespace, service, err)
	}
	return list.Items, nil
}

// addDNS adds the cluster's DNS, and asks it for the name that every cluster has. Where the domain is not known, any answer will do.
func (r *run) addDNS(ctx context.Context, p *plan, s *settings) {
	service, err := r.Client.CoreV1().Services(metav1.NamespaceSystem).Get(ctx, "kube-dns", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		p.leaveOut("DNS: the cluster has no Service/kube-system/kube-dns")
		return
	}
	if err != nil {
		p.cannot("DNS: get Service/kube-system/kube-dns: %v", err)
		return
	}
	domain := "cluster.local"
	if s != nil {
		domain = cmp.Or(strings.Trim(s.Networking.DNSDomain, "."), domain)
	}
	before := len(p.common)
	p.add(probe.DNSUDP, service, 53)
	p.add(probe.DNSTCP, service, 53)
	for i := before; i < len(p.common); i++ {
		p.common[i].Name, p.common[i].AnyAnswer = "kubernetes.default.svc."+domain+".", s == nil
	}
}

// addBalancers adds addresses of LoadBalancer Services that have ready endpoints and let every client in.
func (r *run) addBalancers(ctx context.Context, p *plan) {
	list, err := r.Client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		p.cannot("addresses of load balancers: list services: %v", err)
		return
	}
	asked, more := 0, 0
	for i := range list.Items {
		s := &list.Items[i]
		address, why := balancerAddress(s)
		if address == "" {
			if why != "" {
				p.leaveOut("Service/%s/%s: %s", s.Namespace, s.Name, why)
			}
			continue
		}
		if asked >= mostBalancers {
			more++
			continue
		}
		asked++
		slices, err := r.endpoints(ctx, s.Namespace, s.Name)
		switch {
		case err != nil:
			p.cannot("Service/%s/%s: %v", s.Namespace, s.Name, err)
		case !anyReady(slices):
			p.leaveOut("Service/%s/%s: it has no ready endpoints", s.Namespace, s.Name)
		default:
			p.common = append(p.common, probe.Target{
				Subject: probe.Balancer, Object: "Service/" + s.Namespace + "/" + s.Name, Address: address,
			})
		}
	}
	if more > 0 {
		p.leaveOut("%s of type LoadBalancer, of %d", finding.Count(more, "Service"), asked+more)
	}
}

// balancerAddress is one to ask by TCP, or why there is none. Both are empty where the Service has no address of a load balancer.
func balancerAddress(s *corev1.Service) (address, why string) {
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer || len(s.Status.LoadBalancer.Ingress) == 0 {
		return "", ""
	}
	if len(s.Spec.LoadBalancerSourceRanges) > 0 {
		return "", "it has loadBalancerSourceRanges, and a Node may not be among them"
	}
	at := slices.IndexFunc(s.Spec.Ports, func(p corev1.ServicePort) bool {
		return p.Protocol == corev1.ProtocolTCP || p.Protocol == ""
	})
	if at < 0 {
		return "", "it has no TCP port"
	}
	first := s.Status.LoadBalancer.Ingress[0]
	if first.IP == "" && first.Hostname == "" { // which would be this machine
		return "", "its status has neither an IP address nor a host name"
	}
	return net.JoinHostPort(cmp.Or(first.IP, first.Hostname), strconv.Itoa(int(s.Spec.Ports[at].Port))), ""
}

func anyReady(list []discoveryv1.EndpointSlice) bool {
	return slices.ContainsFunc(list, func(s discoveryv1.EndpointSlice) bool {
		return slices.ContainsFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool {
			return e.Conditions.Ready == nil || *e.Conditions.Ready
		})
	})
}

// addKubelets adds each Node's kubelet at its internal addresses, one of each family.
func (p *plan) addKubelets() {
	var without []string
	for i := range p.nodes {
		n := &p.nodes[i]
		port := cmp.Or(int(n.Status.DaemonEndpoints.KubeletEndpoint.Port), kubeletPort)
		families := map[bool]bool{}
		for _, a := range n.Status.Addresses {
			addr, err := netip.ParseAddr(a.Address)
			if a.Type != corev1.NodeInternalIP || err != nil || families[addr.Is4()] {
				continue
			}
			families[addr.Is4()] = true
			p.kubelets[n.Name] = append(p.kubelets[n.Name], probe.Target{
				Subject: probe.Kubelet, Object: "Node/" + n.Name, Address: net.JoinHostPort(a.Address, strconv.Itoa(port)),
			})
		}
		if len(families) == 0 {
			without = append(without, n.Name)
		}
	}
	if len(without) > 0 {
		p.leaveOut("kubelets of Nodes without an InternalIP: %s", nodes.Some(without, mostNames))
	}
	if others := len(p.nodes) - 1; others > mostPeers {
		p.leaveOut("kubelets of all other Nodes from each Node: each asks for those of %d, the next by name, of %d", mostPeers, others)
	}
}

// of are the targets of the Node at an index: those of all, and from its machine the kubelets of the Nodes that follow it, as in a
// ring. No pod has to reach kubelets: a NetworkPolicy may well forbid it. Nor has one to know the name of the control plane's endpoint,
// which may stand in /etc/hosts of machines alone.
func (p *plan) of(at int, from probe.Place) []probe.Target {
	list := slices.Clone(p.common)
	if from == probe.Pod {
		return slices.DeleteFunc(list, func(t probe.Target) bool {
			_, err := netip.ParseAddrPort(t.Address)
			return t.Subject == probe.Endpoint && err != nil
		})
	}
	for i := 1; i <= min(mostPeers, len(p.nodes)-1); i++ {
		list = append(list, p.kubelets[p.nodes[(at+i)%len(p.nodes)].Name]...)
	}
	return list
}
