package serving

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

const (
	// clusterInfo is the ConfigMap in which kubeadm says where the API server is reached.
	clusterInfo = "cluster-info"
	// kubeadmConfig is the one with kubeadm's ClusterConfiguration.
	kubeadmConfig = "kubeadm-config"
)

// configMap returns the data of a ConfigMap of kubeadm's; nil: there is none, as in a cluster that kubeadm did not make.
func (a *Approver) configMap(ctx context.Context, namespace, name string) (map[string]string, error) {
	object, err := a.Client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get ConfigMap/%s/%s: %w", namespace, name, err)
	}
	return object.Data, nil
}

func (a *Approver) clusterInfo(ctx context.Context, r *reserved) error {
	data, err := a.configMap(ctx, metav1.NamespacePublic, clusterInfo)
	if err != nil || data == nil {
		return err
	}
	config, err := clientcmd.Load([]byte(data["kubeconfig"]))
	if err != nil {
		return fmt.Errorf("read ConfigMap/%s/%s: %w", metav1.NamespacePublic, clusterInfo, err)
	}
	for _, cluster := range config.Clusters {
		u, err := url.Parse(cluster.Server)
		if err != nil {
			return fmt.Errorf("read ConfigMap/%s/%s: %w", metav1.NamespacePublic, clusterInfo, err)
		}
		r.endpoints.Insert(canonical(u.Hostname()))
	}
	return nil
}

// kubeadmConfig adds what the certificates of all API servers have, of machines that do not answer now, too, and whom API
// servers connect to.
func (a *Approver) kubeadmConfig(ctx context.Context, r *reserved) error {
	data, err := a.configMap(ctx, metav1.NamespaceSystem, kubeadmConfig)
	if err != nil || data == nil {
		return err
	}
	var cluster struct {
		ControlPlaneEndpoint string `json:"controlPlaneEndpoint"`
		APIServer            struct {
			CertSANs  []string `json:"certSANs"`
			ExtraArgs any      `json:"extraArgs"` // a map in v1beta3, a list of name and value since
		} `json:"apiServer"`
		Etcd any `json:"etcd"` // the endpoints of an external one
	}
	if err := yaml.Unmarshal([]byte(data["ClusterConfiguration"]), &cluster); err != nil {
		return fmt.Errorf("read ConfigMap/%s/%s: %w", metav1.NamespaceSystem, kubeadmConfig, err)
	}
	r.endpoints.Insert(canonical(hostOf(cluster.ControlPlaneEndpoint)))
	for _, name := range cluster.APIServer.CertSANs {
		r.endpoints.Insert(canonical(name))
	}
	r.urls(cluster.APIServer.ExtraArgs)
	r.urls(cluster.Etcd)
	return nil
}

// urls adds the hosts of URLs, such as that of --oidc-issuer-url: the API server connects to them.
func (r *reserved) urls(value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, each := range value {
			r.urls(each)
		}
	case []any:
		for _, each := range value {
			r.urls(each)
		}
	case string:
		for text := range strings.SplitSeq(value, ",") {
			if u, err := url.Parse(strings.TrimSpace(text)); err == nil && u.Hostname() != "" {
				r.endpoints.Insert(canonical(u.Hostname()))
			}
		}
	}
}

// hostOf is that of HOST or HOST:PORT.
func hostOf(endpoint string) string {
	u, err := url.Parse("https://" + endpoint)
	if err != nil {
		return endpoint
	}
	return u.Hostname()
}
