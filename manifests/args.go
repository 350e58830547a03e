package manifests

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/templates"
)

// args returns the container's arguments: the preset that all providers share, the provider's, the user's.
func args(p *templates.Profile, v templates.Values) ([]string, error) {
	own, err := p.ExpandArgs(v)
	if err != nil {
		return nil, err
	}
	var list []string
	if !p.OwnFlags {
		list = preset(p, v)
	}
	if list, err = templates.MergeArgs(list, own); err != nil {
		return nil, err
	}
	return templates.MergeArgs(list, v.ExtraArgs)
}

func preset(p *templates.Profile, v templates.Values) []string {
	list := []string{
		"--cloud-provider=" + p.CloudProviderName(),
		"--cluster-name=" + v.ClusterName, // upstream's default is the same in all clusters of a cloud
		"--leader-elect=true",
		"--bind-address=127.0.0.1",    // the probes ask there; kubeadm's own controller manager does the same
		"--allocate-node-cidrs=false", // kubeadm's kube-controller-manager does it, and there must be one only
		// Upstream's default is true, and dies without a CIDR.
		fmt.Sprintf("--configure-cloud-routes=%t", v.Routes),
	}
	if v.Routes {
		list = append(list, "--cluster-cidr="+v.PodSubnet)
	}
	without := p.WithoutControllers
	if !v.NodeLifecycle && p.Has(templates.Lifecycle) {
		without = append(slices.Clone(without), "cloud-node-lifecycle-controller")
	}
	if len(without) > 0 {
		list = append(list, "--controllers=*,-"+strings.Join(without, ",-"))
	}
	if config := v.ConfigPath(p); config != "" {
		list = append(list, "--cloud-config="+config)
	}
	if port := p.Health.Port; port != 0 {
		list = append(list, fmt.Sprintf("--secure-port=%d", port))
	}
	if p.Lease != "" {
		list = append(list, "--leader-elect-resource-name="+p.Lease)
	}
	if v.Mode == templates.StaticPod {
		const kubeconfig = templates.Kubeconfig
		list = append(list,
			"--kubeconfig="+kubeconfig,
			"--authentication-kubeconfig="+kubeconfig,
			"--authorization-kubeconfig="+kubeconfig)
	}
	return list
}
