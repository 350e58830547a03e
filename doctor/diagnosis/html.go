package diagnosis

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

//go:embed page.html
var pageFile embed.FS

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
		if _, is := v.Nodes[i].Labels[v1alpha1.ControlPlaneLabel]; is {
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
			shown.Leader = v.facts().Leader()
		}
		p.managers = append(p.managers, shown)
	}
	return p
}

// page is what the template has.
type page struct {
	Summary          string
	Taken            string
	Errors, Warnings int
	Verdict          string
	Causes           []Cause
	Managers         []shownManager
	NoManager        string
	Groups           []nodeGroup
	Total            int
	NotSeen          []NotSeen
	NotLooked        []string
}

// nodeGroup are Nodes of one role and state.
type nodeGroup struct {
	Role, State, Class string
	Count, Percent     int
	Tiles              []tile
	More               int
}

type tile struct{ Name, Detail, Cause, Class string }

// WriteHTML writes a diagnosis as one page that needs nothing but itself: no script, and nothing from elsewhere.
func (d *Diagnosis) WriteHTML(out io.Writer) error {
	t, err := template.New("page.html").Funcs(template.FuncMap{
		"about": about, "clean": finding.Clean, "add": func(a, b int) int { return a + b },
		"reason": func(n NotSeen) string {
			if n.Reason != "" {
				return string(n.Reason)
			}
			return n.Message
		},
	}).ParseFS(pageFile, "page.html")
	if err != nil {
		return fmt.Errorf("read the page's template: %w", err)
	}
	if err := t.Execute(out, d.page()); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

func (d *Diagnosis) page() page {
	p := page{
		Summary: d.Summary, Taken: d.picture.taken.UTC().Format("2006-01-02 15:04:05 UTC"), Causes: d.Causes, Managers: d.picture.managers,
		NotSeen: d.NotSeen, Groups: d.groups(), Total: len(d.Nodes), NoManager: "No cloud-controller-manager was found.",
	}
	p.Errors, p.Warnings = d.Count()
	p.Verdict = "nothing is wrong" + d.asFarAsSeen()
	for name := range d.NotLooked {
		p.NotLooked = append(p.NotLooked, name)
	}
	slices.Sort(p.NotLooked)
	if slices.ContainsFunc(
		d.NotSeen,
		func(n NotSeen) bool { return strings.HasPrefix(n.What, "pods") || n.What == partCluster },
	) {
		p.NoManager = "The cloud-controller-manager was not seen."
	}
	return p
}

// groups puts control planes first, and those first that are furthest behind.
func (d *Diagnosis) groups() []nodeGroup {
	var list []nodeGroup
	for _, role := range []string{"control plane", "node"} {
		for state := nodes.Absent; state <= nodes.Ready; state++ {
			g := nodeGroup{Role: role, State: state.String(), Class: class(state)}
			for _, s := range d.Nodes {
				if s.State != state || d.picture.controls[s.Node] != (role == "control plane") {
					continue
				}
				if g.Count++; len(g.Tiles) < mostTiles {
					g.Tiles = append(g.Tiles, tileOf(s))
				}
			}
			if g.Count > 0 {
				g.More, g.Percent = g.Count-len(g.Tiles), max(1, g.Count*100/len(d.Nodes))
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
	t := tile{Class: class(s.State), Name: finding.Clean(s.Node), Detail: finding.Clean(strings.Join(s.InternalIPs, ", "))}
	if s.Cause != nil {
		t.Cause = string(s.Cause.ID)
		if t.Class == class(nodes.Ready) { // it is called so, and something is wrong with it
			t.Class = class(nodes.Registered)
		}
	}
	return t
}
