package agreement

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
)

// Settings is what objects of a cluster state.
type Settings struct {
	// ProxyCIDR and ProxyServer are of kube-proxy's ConfigMap, InfoServer is of cluster-info, KubeletDomain of kubelet-config.
	ProxyCIDR     string `json:"proxyCIDR,omitempty"`
	ProxyServer   string `json:"proxyServer,omitempty"`
	InfoServer    string `json:"infoServer,omitempty"`
	KubeletDomain string `json:"kubeletDomain,omitempty"`
	// Zones are the domains of Services that CoreDNS answers for. Empty: it is not known.
	Zones string `json:"zones,omitempty"`
	// ServiceCIDRs are by the name of their object.
	ServiceCIDRs map[string][]string `json:"serviceCIDRs,omitempty"`
	// ProxyImage is that of kube-proxy's DaemonSet.
	ProxyImage string `json:"proxyImage,omitempty"`
	// Kubelets are what some kubelets run with, by Node.
	Kubelets map[string]Kubelet `json:"kubelets,omitempty"`
}

// Kubelet is what one runs with.
type Kubelet struct {
	DNS    []string `json:"dns,omitempty"`
	Domain string   `json:"domain,omitempty"`
}

// Take takes a ConfigMap, by NAMESPACE/NAME.
func (s *Settings) Take(name string, data map[string]string) {
	var read struct {
		ClusterCIDR   string `json:"clusterCIDR"`
		ClusterDomain string `json:"clusterDomain"`
	}
	text := func(key string) {
		if yaml.Unmarshal([]byte(data[key]), &read) != nil {
			read.ClusterCIDR, read.ClusterDomain = "", ""
		}
	}
	switch name {
	case "kube-system/kube-proxy":
		text("config.conf")
		s.ProxyCIDR, s.ProxyServer = finding.Clean(read.ClusterCIDR), server(data["kubeconfig.conf"])
	case "kube-system/kubelet-config":
		text("kubelet")
		s.KubeletDomain = finding.Clean(read.ClusterDomain)
	case "kube-public/cluster-info":
		s.InfoServer = server(data["kubeconfig"])
	case "kube-system/coredns":
		s.Zones = zones(data["Corefile"])
	}
}

// server is HOST:PORT of a kubeconfig's first cluster. Its credentials are not looked at.
func server(text string) string {
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server string `json:"server"`
			} `json:"cluster"`
		} `json:"clusters"`
	}
	if yaml.Unmarshal([]byte(text), &config) != nil || len(config.Clusters) == 0 {
		return ""
	}
	u, err := url.Parse(config.Clusters[0].Cluster.Server)
	if err != nil {
		return ""
	}
	return finding.Clean(u.Host)
}

// ofKubernetes is a plugin kubernetes with the zones behind it, all in one line.
var ofKubernetes = regexp.MustCompile(`(?m)^[ \t]*kubernetes\b[ \t]*([^{\n]*)`)

// zones are those of a Corefile. One that imports others, or takes them from variables or from its server block, does not tell.
func zones(text string) string {
	if strings.Contains(text, "import ") || strings.Contains(text, "kubernetai") {
		return ""
	}
	var list []string
	for _, m := range ofKubernetes.FindAllStringSubmatch(text, -1) {
		if strings.TrimSpace(m[1]) == "" {
			return ""
		}
		for zone := range strings.FieldsSeq(m[1]) {
			if strings.ContainsAny(zone, "{$/") {
				return ""
			}
			if !strings.HasSuffix(strings.TrimSuffix(zone, "."), ".arpa") {
				list = append(list, finding.Clean(strings.TrimSuffix(zone, ".")))
			}
		}
	}
	return strings.Join(list, " ")
}

// AskServiceCIDRs lists them. An API server that does not know them has none.
func AskServiceCIDRs(ctx context.Context, client rest.Interface) (map[string][]string, error) {
	data, err := client.Get().AbsPath("/apis/networking.k8s.io/v1/servicecidrs").SetHeader("Accept", "application/json").DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all struct {
		Items []struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
			Spec struct {
				CIDRs []string `json:"cidrs"`
			} `json:"spec"`
		} `json:"items"`
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("read the list of ServiceCIDRs: %w", err)
	}
	list := map[string][]string{}
	for _, item := range all.Items {
		list[item.Metadata.Name] = item.Spec.CIDRs
	}
	return list, nil
}
