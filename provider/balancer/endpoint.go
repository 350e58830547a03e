package balancer

import (
	"net/url"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

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
