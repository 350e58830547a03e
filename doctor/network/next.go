package network

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// agentPods are the arguments by which kubectl finds the pods of node agents.
const agentPods = "-n " + v1alpha1.Namespace + " -l " + v1alpha1.NameLabel + "=" + v1alpha1.AgentName

// advise sets what lets a Node announce, by the rule that excludes most of them: the catalogue's remedy leads to this
// list, or installs agents that exist already. The command is empty if the remedy is no command.
func (s *Snapshot) advise(w *Why, f *finding.Finding) {
	do, command := s.remedy(w)
	f.Do, f.Next = cmp.Or(do, f.Do), command
}

func (s *Snapshot) remedy(w *Why) (do, command string) {
	eligible := slices.ContainsFunc(w.Nodes, func(v Verdict) bool { return v.Eligible })
	switch {
	case len(w.Nodes) == 0 || eligible && len(w.Claims) == 0: // addresses of Nodes need no agents
		return "", ""
	case eligible:
		return "read the log of the agents", "kubectl logs " + agentPods + " --prefix --tail 50"
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
		return "remove the label", "kubectl label node " + node + " " + v1alpha1.ExcludeLabel + "-"
	case "agent":
		if len(s.Agents) == 0 {
			return finding.NotAnnounced.Kind().Do, ""
		}
		return "check the Node's agent", "kubectl get pods " + agentPods + " -o wide --field-selector spec.nodeName=" + node
	case "selector":
		return "change the nodes of the AddressPool, or label a Node so that they select it", "kubectl get addresspool " + w.Pool + " -o yaml"
	case "interface":
		return "name one of the Node's interfaces in AddressPool " + w.Pool + ", or give the pool addresses of their subnets",
			"kubectl get nodeagent " + node + " -o yaml"
	case "session":
		return finding.PeerDown.Kind().Do, ""
	case "endpoint":
		return "externalTrafficPolicy Local requires a ready pod on the Node", "kubectl -n " + namespace + " get pods -o wide"
	case "draining":
		if rule.Note == "label "+v1alpha1.DrainLabel {
			return "remove the label", "kubectl label node " + node + " " + v1alpha1.DrainLabel + "-"
		}
		if strings.HasPrefix(rule.Note, v1alpha1.LeavingCondition) {
			return "end the maintenance: set state: active for the machine in the inventory, or clear the condition that you have set",
				"kubectl get node " + node + " -o yaml"
		}
	}
	return "check the Node", "kubectl describe node " + node
}

// intended is true if the Node was excluded on purpose: faults of other Nodes come first.
func intended(r Rule) bool {
	return r.Name == "label" || r.Name == "draining" &&
		(r.Note == "label "+v1alpha1.DrainLabel || strings.HasPrefix(r.Note, v1alpha1.LeavingCondition))
}
