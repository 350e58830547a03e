package diagnosis

import (
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
)

// permissions finds what the manager may not do before a Node waits for it. What a Node waits for already stands there.
func permissions(v *view) []finding.Finding {
	said := slices.ContainsFunc(waitingNodes(v), func(f finding.Finding) bool {
		return f.Reason == finding.MissingPermission.Kind().Reason
	})
	m := v.main()
	if m == nil || said || m.arg("kubeconfig") != "" && !strings.HasPrefix(m.object, "Pod/") { // it may be another user
		return nil
	}
	f := v.facts.Lacks()
	if f == nil {
		return nil
	}
	f.Object = m.object
	return []finding.Finding{*f}
}

// byVerbs leaves what a permission can explain: without those for Services, only what waits for load balancers, and
// without those for ConfigMaps, a list of machines that is in one.
func byVerbs(_ *view, f *finding.Finding, all []finding.ID) []finding.ID {
	switch {
	case f.ID == "D9":
		return []finding.ID{finding.BalancerPending, finding.BalancerStuck}
	case strings.Contains(f.Message, "configmaps"):
		return []finding.ID{finding.ReadingRejected, finding.NoInventory, finding.ManagerFails, finding.NotServed}
	case f.Severity != finding.SeverityError:
		return nil
	}
	return all
}
