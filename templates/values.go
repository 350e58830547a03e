package templates

import (
	"net/netip"
	"path"
	"slices"
	"strings"
)

// Paths that are the same on the machine and in every pod.
const (
	// ConfigDir has the provider's configuration file and credentials.
	ConfigDir = "/etc/kubernetes/cloud-config"
	// Kubeconfig holds the certificate of a static pod.
	Kubeconfig = "/etc/kubernetes/cloud-controller-manager.conf"
)

// Values are what profiles and manifests are rendered from.
type Values struct {
	// Mode is how the pods are run.
	Mode Mode
	// Handover says that a manager of the other kind, static pod or scheduled, runs yet: permissions are for both.
	Handover bool
	// Version is that of ccmadm.
	Version string
	// Image is a complete reference. Empty: the profile's own.
	Image string
	// ImageTag replaces the tag that the profile would choose.
	ImageTag string
	// ImageRepository is kubeadm's imageRepository (--image-repository): a mirror that holds every image under the last
	// part of its name. Empty, or kubeadm's own default: images come from where their vendors publish them.
	ImageRepository string
	// ClusterName tells the resources of one cluster in a cloud from another's.
	ClusterName string
	// KubernetesVersion is the cluster's, like v1.36.3; not that of the kubeadm that happens to be installed.
	KubernetesVersion string
	// Endpoint is the API server's URL as seen from a machine. Static pods take theirs from a kubeconfig. Empty: the
	// service's virtual address, which works once kube-proxy does.
	Endpoint string
	// PodSubnet is the cluster's pod CIDR, or two with a comma.
	PodSubnet string
	// Routes lets the provider program routes to pods; needs PodSubnet.
	Routes bool
	// NodeLifecycle runs the controller that deletes the Nodes of machines that are gone.
	NodeLifecycle bool
	// Files are the names of the configuration and credential files that were given.
	Files []string
	// ConfigHash changes with the contents of these files, so that pods are replaced.
	ConfigHash string
	// NodeAgent runs the provider's agent on every node.
	NodeAgent bool
	// NodeAgentImage is a complete reference. Empty: the profile's own.
	NodeAgentImage string
	// ControlPlaneVIP is the control plane's own address; empty: it has none.
	ControlPlaneVIP string
	// ServingCertificates has serving certificates of kubelets approved; ServingRanges are CIDRs, with commas, in which an
	// address is believed that nobody but a kubelet speaks for.
	ServingCertificates bool
	ServingRanges       string
	// ServingNames are DNS names, or *.DOMAIN, which a Node may have without a proof, beside those of the profile.
	ServingNames []string
	// Proxies are the machine's proxy settings, NAME=value.
	Proxies []string
	// Env are the user's environment variables, NAME=value. They win over Proxies, and over the profile's.
	Env []string
	// ExtraArgs win over arguments of the same name.
	ExtraArgs []string
}

// ipFamily is that of the pod subnets: ipv4, ipv6 or dualstack. Nothing where they are not known.
func (v Values) ipFamily() string {
	switch v4, v6 := IPFamilies(v.PodSubnet); {
	case v4 && v6:
		return "dualstack"
	case v4:
		return "ipv4"
	case v6:
		return "ipv6"
	default:
		return ""
	}
}

// IPFamilies tells which families subnets are of, one CIDR or two with a comma.
func IPFamilies(subnets string) (v4, v6 bool) {
	for s := range strings.SplitSeq(subnets, ",") {
		if p, err := netip.ParsePrefix(strings.TrimSpace(s)); err == nil {
			v4, v6 = v4 || p.Addr().Is4(), v6 || p.Addr().Is6()
		}
	}
	return v4, v6
}

// ProxyVariables are the names under which programs look for proxies, and kubeadm passes them on to its own pods.
func ProxyVariables() []string {
	return []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"}
}

func (v Values) hasConfig(p *Profile) bool {
	return p.Config != nil && slices.Contains(v.Files, p.Config.File)
}

// ConfigPath is where the pod finds the configuration file; empty if there is none.
func (v Values) ConfigPath(p *Profile) string {
	if !v.hasConfig(p) {
		return ""
	}
	return path.Join(ConfigDir, p.Config.File)
}

// Holds says whether a rule under that condition is granted to the provider.
func (c Condition) Holds(p *Profile, v Values) bool {
	switch c {
	case WhenConfig:
		return v.hasConfig(p)
	case WhenLifecycle:
		return p.Has(Lifecycle) && v.NodeLifecycle
	case WhenServices:
		return p.Has(Services)
	case WhenRoutes:
		return v.Routes
	default:
		return true
	}
}
