package diagnosis

import "github.com/ccmadm/ccmadm/api/finding"

// unansweredService is what kube-proxy on a machine makes of the API server's Service, with the pod that is to be restarted.
func unansweredService(_ *view, h *Host) []finding.Finding {
	s := h.Service
	if s == nil || s.Error == "" {
		return nil
	}
	seen := "Service/default/kubernetes does not answer at " + s.Address + ": " + s.Error
	var next string
	switch {
	case s.Proxy == "":
		seen += "; no pod of kube-proxy is on this Node"
		next = "kubectl -n kube-system get pods -o wide --field-selector spec.nodeName=" + h.Node
	case s.ProxyState != "":
		seen += "; kube-proxy does not run: " + s.ProxyState
		next = "kubectl -n kube-system logs --previous " + s.Proxy
	default:
		next = "kubectl -n kube-system delete pod " + s.Proxy
	}
	f := finding.ServiceUnanswered.New(h.node(), seen)
	f.Next = next
	return []finding.Finding{f}
}
