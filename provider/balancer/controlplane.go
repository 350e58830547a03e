package balancer

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

const (
	// proxyKubeconfig is the key of the ConfigMap of kube-proxy with the address at which it reaches the API server.
	proxyKubeconfig = "kubeconfig.conf"
	// lookupTime is how long a DNS answer is used, and lookupTimeout how long a pass waits for one.
	lookupTime, lookupTimeout = time.Minute, 2 * time.Second
)

// controlPlane has the addresses at which clients reach the API server. They are never a Service's: kube-proxy would
// send every Node's requests to the API server to that Service.
type controlPlane struct {
	// endpoints are where clients connect: the control plane's address, a load balancer's, or a machine's.
	endpoints map[netip.Addr]bool
	// servers are the machines with an API server, by the EndpointSlices of Service default/kubernetes.
	servers map[netip.Addr]bool
}

// has says whether the address is one of them.
func (c controlPlane) has(address netip.Addr) bool { return c.endpoints[address] || c.servers[address] }

// isOf says whether the address may be published as that of a Node. A machine with an API server keeps its own.
func (c controlPlane) isOf(node *corev1.Node, address netip.Addr, alone bool) bool {
	return !c.has(address) || c.servers[address] && (alone || hasLabel(node, v1alpha1.ControlPlaneLabel))
}

// apiServers are the addresses of the API servers.
func apiServers(slices []*discoveryv1.EndpointSlice) map[netip.Addr]bool {
	servers := map[netip.Addr]bool{}
	for _, slice := range slices {
		if slice.Namespace != metav1.NamespaceDefault || slice.Labels[discoveryv1.LabelServiceName] != "kubernetes" {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			for _, text := range endpoint.Addresses {
				if address, err := netip.ParseAddr(text); err == nil {
					servers[address.Unmap()] = true
				}
			}
		}
	}
	return servers
}

// lookups resolves the names of endpoints, and keeps the last answer while DNS has none.
type lookups struct {
	lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
	known  map[string]answer
}

// answer is what a name resolves to.
type answer struct {
	addresses []netip.Addr
	asked     time.Time
}

func newLookups() *lookups {
	return &lookups{lookup: net.DefaultResolver.LookupNetIP, known: map[string]answer{}}
}

// of returns the addresses of hosts, which are addresses or names.
func (l *lookups) of(ctx context.Context, now time.Time, hosts ...string) map[netip.Addr]bool {
	found := map[netip.Addr]bool{}
	for _, host := range hosts {
		if address, err := netip.ParseAddr(host); err == nil {
			found[address.Unmap().WithZone("")] = true
			continue
		}
		if host == "" {
			continue
		}
		for _, address := range l.resolve(ctx, now, host) {
			found[address.Unmap()] = true
		}
	}
	return found
}

func (l *lookups) resolve(ctx context.Context, now time.Time, host string) []netip.Addr {
	known, there := l.known[host]
	if there && now.Sub(known.asked) < lookupTime {
		return known.addresses
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	addresses, err := l.lookup(ctx, "ip", host)
	if err != nil {
		klog.ErrorS(err, "Cannot resolve the API server's name, using the last answer", "host", host, "addresses", known.addresses)
		addresses = known.addresses
	}
	l.known[host] = answer{addresses: addresses, asked: now}
	return addresses
}

// proxyEndpoint is the host at which kube-proxy reaches the API server: with kubeadm, the controlPlaneEndpoint.
func (c *caches) proxyEndpoint() string {
	for _, cm := range list[*corev1.ConfigMap](c.proxy) {
		config, err := clientcmd.Load([]byte(cm.Data[proxyKubeconfig]))
		if err != nil {
			klog.ErrorS(err, "Cannot read the API server's address", "configMap", klog.KObj(cm), "key", proxyKubeconfig)
			continue
		}
		for _, cluster := range config.Clusters {
			if u, err := url.Parse(cluster.Server); err == nil {
				return u.Hostname()
			}
		}
	}
	return ""
}
