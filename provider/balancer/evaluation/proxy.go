package evaluation

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

const (
	// ProxyName is the ConfigMap that kubeadm makes for kube-proxy.
	ProxyName = "kube-proxy"
	// ProxyKey is the file in it.
	ProxyKey = "config.conf"
)

// Proxy is how kube-proxy works, which carries the packets. In mode ipvs it binds each published address, but for the
// machine's own, on every machine (shouldBind in its pkg/proxy/ipvs): of Nodes each would take the others' for its
// own, etcd's too.
type Proxy struct {
	// unknown: the manager may not read it.
	Unknown, IPVS bool
	// There: it has a configuration, so that it is what carries the packets.
	There bool
	// strictARP: a machine answers ARP for no address of kube-ipvs0.
	strictARP bool
}

// ReadProxy reads kubeadm's ConfigMap. Without the file in it there is no mode that is known to bind.
func ReadProxy(cm *corev1.ConfigMap) Proxy {
	var c struct {
		Mode string `json:"mode"`
		IPVS struct {
			StrictARP bool `json:"strictARP"`
		} `json:"ipvs"`
	}
	if err := yaml.Unmarshal([]byte(cm.Data[ProxyKey]), &c); err != nil {
		return Proxy{Unknown: true}
	}
	return Proxy{There: true, IPVS: c.Mode == "ipvs", strictARP: c.IPVS.StrictARP}
}

// answers says that every machine would answer ARP for an address of this level.
func (p Proxy) answers(level v1alpha1.Level) bool {
	return level.OnLink() && p.IPVS && !p.strictARP
}

// onNodes says why a Service may not have the addresses of so many Nodes. What was published, and may be right, stays.
func (p Proxy) onNodes(nodes int, published bool) *finding.Finding {
	switch {
	case p.IPVS && nodes > 1:
		return finding.ProxyBinds.Errorf("kube-proxy is in mode ipvs, and would bind the addresses of %d Nodes on each",
			nodes)
	case p.Unknown && !published:
		return finding.ProxyBinds.Errorf("cannot read ConfigMap/%s/%s: kube-proxy may be in mode ipvs, and would then bind "+
			"the Nodes' addresses on each of them", v1alpha1.Namespace, ProxyName)
	}
	return nil
}
