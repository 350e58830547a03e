package diagnosis

import (
	"strings"
	"time"

	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// mostTiles is how many Nodes of one state are named on the page; the others are counted.
const mostTiles = 120

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

// The roles of Nodes on the page.
const (
	controlPlane = "control plane"
	worker       = "node"
)

// nodeGroup are Nodes of one role and state.
type nodeGroup struct {
	Role, State, Class string
	Count              int
	Tiles              []tile
}

type tile struct{ Name, Detail, Cause, Class string }

// groups puts control planes first, and those first that are furthest behind.
func (d *Diagnosis) groups() []nodeGroup {
	var list []nodeGroup
	for _, role := range []string{controlPlane, worker} {
		for state := nodes.Absent; state <= nodes.Ready; state++ {
			g := nodeGroup{Role: role, State: state.String(), Class: class(state)}
			for _, s := range d.Nodes {
				if s.State != state || d.picture.controls[s.Node] != (role == controlPlane) {
					continue
				}
				if g.Count++; len(g.Tiles) < mostTiles {
					g.Tiles = append(g.Tiles, tileOf(s))
				}
			}
			if g.Count > 0 {
				list = append(list, g)
			}
		}
	}
	return list
}

// class is one of three colours: it runs, it waits, nobody works on it.
func class(s nodes.State) string {
	switch {
	case s == nodes.Ready:
		return "ok"
	case s <= nodes.Registered:
		return "bad"
	}
	return "waits"
}

func tileOf(s nodes.Status) tile {
	t := tile{Class: class(s.State), Name: s.Node, Detail: strings.Join(s.InternalIPs, ", ")}
	if s.Cause != nil {
		t.Cause = string(s.Cause.ID)
		if t.Class == class(nodes.Ready) { // it is called so, and something is wrong with it
			t.Class = class(nodes.Registered)
		}
	}
	return t
}
