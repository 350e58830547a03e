package network

import (
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// agentPods are the arguments by which kubectl finds the pods of node agents.
const agentPods = "-n " + v1alpha1.Namespace + " -l " + v1alpha1.NameLabel + "=" + v1alpha1.AgentName

// next says what lets a Node announce, by the rule that is against most of them: the finding itself only says to look
// here, or to install agents that are there.
func (s *Snapshot) next(w *Why) string {
	eligible := slices.ContainsFunc(w.Nodes, func(v Verdict) bool { return v.Eligible })
	switch {
	case len(w.Nodes) == 0 || eligible && len(w.Claims) == 0: // addresses of Nodes need no agents
		return ""
	case eligible:
		return "kubectl logs " + agentPods + " --prefix --tail 50"
	}
	faulty := slices.ContainsFunc(w.Nodes, func(v Verdict) bool { return !intended(v.unmet()) })
	var first Verdict
	count, most := map[string]int{}, 0
	for _, v := range slices.Backward(w.Nodes) { // so that of those with the rule the first one is named
		rule := v.unmet()
		if faulty && intended(rule) {
			continue
		}
		if count[rule.Name]++; count[rule.Name] >= most {
			first, most = v, count[rule.Name]
		}
	}
	node, rule := first.Node, first.unmet()
	namespace, _, _ := strings.Cut(w.Service, "/")
	switch rule.Name {
	case "label":
		return "kubectl label node " + node + " " + v1alpha1.ExcludeLabel + "-"
	case "agent":
		if len(s.Agents) == 0 {
			return finding.NotAnnounced.Kind().Do
		}
		return "kubectl get pods " + agentPods + " -o wide --field-selector spec.nodeName=" + node
	case "selector":
		return "kubectl get addresspool " + w.Pool + " -o yaml: change its nodes, or label a Node so that it is among them"
	case "interface":
		return "kubectl get nodeagent " + node + " -o yaml: name one of its interfaces in AddressPool " + w.Pool +
			", or give the pool addresses of their subnets"
	case "session":
		return finding.PeerDown.Kind().Do
	case "endpoint":
		return "kubectl -n " + namespace + " get pods -o wide: externalTrafficPolicy Local wants one that is ready"
	case "draining":
		if rule.Note == "label "+v1alpha1.DrainLabel {
			return "kubectl label node " + node + " " + v1alpha1.DrainLabel + "-"
		}
	}
	return "kubectl describe node " + node
}

// intended says that the Node was left out on purpose: what is broken elsewhere comes first.
func intended(r Rule) bool {
	return r.Name == "label" || r.Name == "draining" && r.Note == "label "+v1alpha1.DrainLabel
}
