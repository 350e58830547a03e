package balancer

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// proxyName is the ConfigMap that kubeadm makes for kube-proxy, and proxyKey the file in it.
const proxyName, proxyKey = "kube-proxy", "config.conf"

// proxy is how kube-proxy works, which carries the packets. In mode ipvs it binds each published address, but for the
// machine's own, on every machine (shouldBind in its pkg/proxy/ipvs): of Nodes each would take the others' for its
// own, etcd's too.
type proxy struct {
	// unknown: the manager may not read it.
	unknown, ipvs bool
	// strictARP: a machine answers ARP for no address of kube-ipvs0.
	strictARP bool
}

// readProxy reads kubeadm's ConfigMap. Without the file in it there is no mode that is known to bind.
func readProxy(cm *corev1.ConfigMap) proxy {
	var c struct {
		Mode string `json:"mode"`
		IPVS struct {
			StrictARP bool `json:"strictARP"`
		} `json:"ipvs"`
	}
	if err := yaml.Unmarshal([]byte(cm.Data[proxyKey]), &c); err != nil {
		return proxy{unknown: true}
	}
	return proxy{ipvs: c.Mode == "ipvs", strictARP: c.IPVS.StrictARP}
}

// answers says that every machine would answer ARP for an address of this level.
func (p proxy) answers(level v1alpha1.Level) bool {
	return level == v1alpha1.LevelL2 && p.ipvs && !p.strictARP
}

// onNodes says why a Service may not have the addresses of so many Nodes. What was published, and may be right, stays.
func (p proxy) onNodes(nodes int, published bool) *finding.Finding {
	switch {
	case p.ipvs && nodes > 1:
		return finding.ProxyBinds.Errorf("kube-proxy is in mode ipvs, and would bind the addresses of %d Nodes on each",
			nodes)
	case p.unknown && !published:
		return finding.ProxyBinds.Errorf("cannot read ConfigMap/%s/%s: whether kube-proxy is in mode ipvs, and would bind "+
			"the Nodes' addresses on each of them", v1alpha1.Namespace, proxyName)
	}
	return nil
}

func proxyInformer(client kubernetes.Interface) cache.SharedIndexInformer {
	one := informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=" + proxyName })
	return informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(v1alpha1.Namespace), one).
		Core().V1().ConfigMaps().Informer()
}

// proxyMode is what the cache knows of it. Once it was ipvs it stays that for this manager: the file says how
// kube-proxy begins, and who edits it, as the finding says, has not restarted those that run.
func (c *caches) proxyMode() proxy {
	if !c.proxy.registered.HasSynced() {
		return proxy{unknown: true}
	}
	var p proxy
	for _, cm := range objects.List[*corev1.ConfigMap](c.proxy.GetStore()) {
		p = readProxy(cm)
	}
	if p.ipvs {
		c.bound.Store(true)
	}
	p.ipvs = c.bound.Load()
	return p
}
