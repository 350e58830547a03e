package agreement

import (
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// running is a component of a machine, by the tag of its image.
type running struct {
	node, tag string
	minor     int
}

// tagged is an image whose tag is a version of Kubernetes, as its builders make them.
var tagged = regexp.MustCompile(`^([a-zA-Z0-9./:_-]+):(v1\.\d+\.\d+)(?:[-_+][\w.-]+)?(?:@sha256:[0-9a-f]+)?$`)

// minorOf is 37 of IMAGE:v1.37.2. Less than 0: the image does not tell.
func minorOf(image string) (tag string, minor int) {
	m := tagged.FindStringSubmatch(image)
	if m == nil {
		return "", -1
	}
	v, err := version.ParseGeneric(m[2])
	if err != nil {
		return "", -1
	}
	return m[2], int(v.Minor())
}

func (c *Cluster) running(component string) []running {
	var list []running
	for i := range c.Static {
		p := &c.Static[i]
		if p.Labels[v1alpha1.ComponentLabel] != component || len(p.Spec.Containers) == 0 {
			continue
		}
		if tag, minor := minorOf(templates.OwnContainer(&p.Spec, component).Image); minor >= 0 {
			list = append(list, running{p.Spec.NodeName, tag, minor})
		}
	}
	return list
}

// versions finds components whose versions are further apart than Kubernetes supports
// (https://kubernetes.io/releases/version-skew-policy/).
// Kubelets are compared elsewhere.
func (c *Cluster) versions() []finding.Finding {
	servers := c.running("kube-apiserver")
	if len(servers) == 0 {
		return nil
	}
	byMinor := func(a, b running) int { return a.minor - b.minor }
	oldest, newest := slices.MinFunc(servers, byMinor), slices.MaxFunc(servers, byMinor)
	var list []finding.Finding
	if newest.minor-oldest.minor > 1 {
		f := finding.SettingsDisagree.New("Node/"+oldest.node, fmt.Sprintf(
			"version: kube-apiserver is %s on %s and %s on %s: API servers may be one minor version apart",
			oldest.tag, oldest.node, newest.tag, newest.node))
		f.Next = "on " + oldest.node + ": kubeadm upgrade node"
		list = append(list, f)
	}
	for _, component := range []string{"kube-controller-manager", "kube-scheduler"} {
		for _, r := range c.running(component) {
			i := slices.IndexFunc(servers, func(s running) bool { return s.node == r.node })
			if i < 0 || r.minor <= servers[i].minor && r.minor+1 >= servers[i].minor {
				continue
			}
			f := finding.SettingsDisagree.New("Node/"+r.node, fmt.Sprintf(
				"version: %s on %s is %s, and kube-apiserver %s: it may be one minor version older, and not newer",
				component, r.node, r.tag, servers[i].tag))
			f.Next = "on " + r.node + ": kubeadm upgrade node"
			list = append(list, f)
		}
	}
	return append(list, c.proxyVersion(newest)...)
}

const proxyBehind = 3

func (c *Cluster) proxyVersion(newest running) []finding.Finding {
	tag, minor := minorOf(c.ProxyImage)
	if minor < 0 || minor <= newest.minor && minor+proxyBehind >= newest.minor {
		return nil
	}
	f := finding.SettingsDisagree.New("DaemonSet/kube-system/kube-proxy", fmt.Sprintf(
		"version: kube-proxy is %s, and the newest kube-apiserver %s: it may be three minor versions older, and not newer", tag, newest.tag))
	f.Next = "kubectl -n kube-system set image daemonset/kube-proxy kube-proxy=" +
		tagged.FindStringSubmatch(c.ProxyImage)[1] + ":" + newest.tag
	return []finding.Finding{f}
}
