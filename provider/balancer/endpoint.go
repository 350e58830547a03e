package balancer

import (
	"net/url"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// proxyKubeconfig is the key of the ConfigMap of kube-proxy with the address at which it reaches the API server.
const proxyKubeconfig = "kubeconfig.conf"

// proxyEndpoint is the host at which kube-proxy reaches the API server: with kubeadm, the controlPlaneEndpoint.
func (c *caches) proxyEndpoint() string {
	for _, cm := range objects.List[*corev1.ConfigMap](c.proxy.GetStore()) {
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

func proxyInformer(client kubernetes.Interface) cache.SharedIndexInformer {
	one := informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=" + evaluation.ProxyName })
	return informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(v1alpha1.Namespace), one).
		Core().V1().ConfigMaps().Informer()
}

// proxyMode is what the cache knows of it. Once it was ipvs it stays that for this manager: the file says how
// kube-proxy begins, and who edits it, as the finding says, has not restarted those that run.
func (c *caches) proxyMode() evaluation.Proxy {
	if !c.proxy.registered.HasSynced() {
		return evaluation.Proxy{Unknown: true}
	}
	var p evaluation.Proxy
	for _, cm := range objects.List[*corev1.ConfigMap](c.proxy.GetStore()) {
		p = evaluation.ReadProxy(cm)
	}
	if p.IPVS {
		c.bound.Store(true)
	}
	p.IPVS = c.bound.Load()
	return p
}
