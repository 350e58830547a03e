package planner

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// The minors that end what works now. Upstream has them in KEPs alone: no program tells.
const (
	runtimeAsked  = 38 // the kubelet has no other source of the cgroup driver: kubernetes/kubernetes#136731
	eventsAsTold  = 37 // 0 stands for no limit: kubernetes/kubernetes#117119
	namesInTheRow = 5  // that are shown of a long list
)

// checkAhead finds what ends the components of a minor version to come, or has them do something else.
func (p *planner) checkAhead() {
	minor := p.target.Minor()
	var old []string
	for _, n := range p.Nodes {
		if tooOld(n.Runtime) {
			old = append(old, n.Name+" ("+finding.Clean(n.Runtime)+")")
		}
	}
	if len(old) > 0 {
		f := finding.RuntimeEnds.New("", "the container runtime is too old for a kubelet of 1.38: "+nodes.Some(old, namesInTheRow))
		if minor >= runtimeAsked {
			f.Severity = finding.SeverityError
		}
		p.add(f)
	}
	if p.ProxyMode == "ipvs" {
		p.add(finding.ProxyModeEnds.New("ConfigMap/kube-system/kube-proxy", "kube-proxy is in mode ipvs, which is off from 1.40 on"))
	}
	if len(p.ExternalIPs) > 0 {
		p.add(finding.ExternalIPs.New("", "Services have externalIPs, which nothing serves from 1.40 on: "+nodes.Some(p.ExternalIPs, namesInTheRow)))
	}
	if p.EventsUnset && minor >= eventsAsTold && p.oldest.Minor() < eventsAsTold {
		p.add(finding.MeansElse.New("ConfigMap/kube-system/kubelet-config",
			"eventRecordQPS: 0 stands for no limit from 1.37 on; before that it stood for the default of a client, 5 Events per second"))
	}
}

// tooOld tells whether a runtime does not say which cgroup driver it has: containerd before 2.0. What is not read is not
// judged.
func tooOld(runtime string) bool {
	text, is := strings.CutPrefix(runtime, "containerd://")
	v, err := version.ParseGeneric(text)
	return is && err == nil && v.Major() < 2
}
