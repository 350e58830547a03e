package planner

import (
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

const (
	eventsAsTold  = 37 // 0 stands for no limit: kubernetes/kubernetes#117119
	namesInTheRow = 5  // that are shown of a long list
)

// checkAhead finds what ends the components of a minor version to come, or has them do something else. Which version that
// is, the catalogue says.
func (p *planner) checkAhead() {
	minor := p.target.Minor()
	var old []string
	for _, n := range p.Nodes {
		if nodes.RuntimeIsOld(n.Runtime) {
			old = append(old, n.Name+" ("+finding.Clean(n.Runtime)+")")
		}
	}
	if len(old) > 0 {
		p.addAhead(finding.RuntimeEnds, "", "the container runtime does not report its cgroup driver: "+nodes.Some(old, namesInTheRow))
	}
	const proxy = "ConfigMap/kube-system/kube-proxy"
	switch {
	case p.ProxyMode == "ipvs":
		p.addAhead(finding.ProxyModeEnds, proxy, "kube-proxy is in mode ipvs")
	case p.Proxy != "" && p.ProxyMode == "":
		p.add(finding.ProxyModeDefault.Ahead(int(minor), proxy, "kube-proxy has no mode, which stands for iptables"))
	case p.Proxy != "" && p.ProxyMode == "iptables":
		p.add(finding.ProxyModeDefault.New(proxy, "kube-proxy is in mode iptables"))
	}
	if len(p.ExternalIPs) > 0 {
		p.addAhead(finding.ExternalIPs, "", "Services have externalIPs: "+nodes.Some(p.ExternalIPs, namesInTheRow))
	}
	if p.EventsUnset && minor >= eventsAsTold && p.oldest.Minor() < eventsAsTold {
		p.add(finding.MeansElse.New("ConfigMap/kube-system/kubelet-config",
			"eventRecordQPS: 0 stands for no limit from 1.37 on; before that it stood for the default of a client, 5 Events per second"))
	}
}

func (p *planner) addAhead(id finding.ID, object, seen string) {
	p.add(warned(id.Ahead(int(p.target.Minor()), object, seen)))
}

// warned has a plan warn of what lint and doctor only note: the way to later versions is what a plan is about.
func warned(f finding.Finding) finding.Finding {
	if f.Severity == finding.SeverityNote {
		f.Severity = finding.SeverityWarning
	}
	return f
}
