package manifests

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/templates"
)

// args returns the container's arguments: the preset that all providers share, the provider's, the user's. A later one
// takes the place of an earlier one of the same name, since a flag given twice misleads whoever reads the pod.
func args(p *templates.Profile, v templates.Values) ([]string, error) {
	own, err := p.ExpandArgs(v)
	if err != nil {
		return nil, err
	}
	list := preset(p, v)
	for _, arg := range slices.Concat(own, v.ExtraArgs) {
		name, _, ok := strings.Cut(arg, "=")
		if !ok || !strings.HasPrefix(arg, "--") {
			return nil, fmt.Errorf("argument %q: must have the form --flag=value", arg)
		}
		same := func(other string) bool { return strings.HasPrefix(other, name+"=") }
		if i := slices.IndexFunc(list, same); i >= 0 {
			list[i] = arg
		} else {
			list = append(list, arg)
		}
	}
	return list, nil
}

func preset(p *templates.Profile, v templates.Values) []string {
	list := []string{
		"--cloud-provider=" + p.Name,
		"--cluster-name=" + v.ClusterName, // upstream's default is the same in all clusters of a cloud
		"--leader-elect=true",
		"--bind-address=127.0.0.1",                           // the probes ask there; kubeadm's own controller manager does the same
		"--allocate-node-cidrs=false",                        // kubeadm's kube-controller-manager does it, and there must be one only
		fmt.Sprintf("--configure-cloud-routes=%t", v.Routes), // upstream's default is true and dies without a CIDR
	}
	if v.Routes {
		list = append(list, "--cluster-cidr="+v.PodSubnet)
	}
	if !v.NodeLifecycle {
		list = append(list, "--controllers=*,-cloud-node-lifecycle-controller")
	}
	if v.CloudConfig {
		list = append(list, "--cloud-config="+path.Join(CloudConfigDir, p.Config.File))
	}
	if v.Mode == templates.StaticPod {
		list = append(list, "--kubeconfig="+Kubeconfig, "--authentication-kubeconfig="+Kubeconfig, "--authorization-kubeconfig="+Kubeconfig)
	}
	return list
}
