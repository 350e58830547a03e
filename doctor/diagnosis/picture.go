package diagnosis

import (
	"time"

	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// picture is what the page shows of a cluster beside its findings.
type picture struct {
	taken    time.Time
	managers []shownManager
	controls map[string]bool
}

// shownManager is a cloud-controller-manager on the page.
type shownManager struct {
	Object, Provider, Leader string
	Running, Pods            int
	Main                     bool
}

func (v *view) picture() picture {
	p := picture{taken: v.Taken, controls: map[string]bool{}}
	for i := range v.Nodes {
		if nodes.IsControlPlane(&v.Nodes[i]) {
			p.controls[v.Nodes[i].Name] = true
		}
	}
	for i := range v.managers {
		m := &v.managers[i]
		shown := shownManager{Object: m.object, Pods: len(m.pods), Main: v.main() == m}
		if m.Profile != nil {
			shown.Provider = m.Profile.Name
		}
		for _, pod := range m.pods {
			if running(pod) {
				shown.Running++
			}
		}
		if shown.Main {
			shown.Leader = v.facts.Leader()
		}
		p.managers = append(p.managers, shown)
	}
	return p
}
