package diagnosis

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/html"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/doctor/page"
)

// WriteHTML writes a diagnosis as one page that needs nothing but itself: no script, and nothing from elsewhere.
func (d *Diagnosis) WriteHTML(out io.Writer) error {
	return page.Write(out, "ccmadm doctor: "+d.Summary, d.body())
}

func (d *Diagnosis) body() *html.Node {
	groups := d.groups()
	body := page.Element("body", "",
		page.Heading("ccmadm doctor", d.Summary, d.counts()),
		page.Element("h2", "", page.Text("The cluster")),
		page.Element("section", "picture",
			page.Card("Control planes", shownGroups(groups, controlPlane, 0)...),
			page.Element("div", "arrow", page.Text("→")),
			page.Card("Cloud-controller-manager", d.shownManagers()...),
			page.Element("div", "arrow", page.Text("→")),
			page.Card("Nodes by state", d.shownNodes(groups)...),
		),
	)
	if len(d.Causes) > 0 {
		body.AppendChild(page.Element("h2", "", page.Text("What blocks what")))
		for i, c := range d.Causes {
			body.AppendChild(flow(i, c))
		}
		body.AppendChild(page.Element("h2", "", page.Text("Findings")))
		for i, c := range d.Causes {
			body.AppendChild(article(i, c))
		}
	}
	if len(d.Probed) > 0 {
		body.AppendChild(page.Element("h2", "", page.Text("The network, as Nodes see it")))
		for _, line := range d.Probed {
			body.AppendChild(page.Element("p", "", page.Text(line)))
		}
	}
	if len(d.NotSeen) > 0 {
		body.AppendChild(page.Element("h2", "", page.Text("Not seen")))
		body.AppendChild(d.notSeen())
	}
	return body
}

func (d *Diagnosis) counts() *html.Node {
	counts := page.Element("p", "counts")
	errors, warnings := d.Count()
	if errors > 0 {
		counts.AppendChild(page.Element("span", "error", page.Text(finding.Count(errors, "error"))))
	}
	if warnings > 0 {
		counts.AppendChild(page.Element("span", "warning", page.Text(finding.Count(warnings, "warning"))))
	}
	if !d.Wrong() {
		class := "ok"
		if len(d.NotSeen) > 0 || d.unprobed {
			class = "waits"
		}
		counts.AppendChild(page.Element("span", class, page.Text("nothing is wrong"+d.asFarAsSeen())))
	}
	counts.AppendChild(page.AsOf("small", d.picture.taken))
	return counts
}

func (d *Diagnosis) shownManagers() []*html.Node {
	if len(d.picture.managers) == 0 {
		none := "No cloud-controller-manager was found."
		if slices.ContainsFunc(
			d.NotSeen,
			func(n NotSeen) bool { return strings.HasPrefix(n.What, "pods") || n.What == partCluster },
		) {
			none = "The cloud-controller-manager was not seen."
		}
		return []*html.Node{page.Element("p", "", page.Element("span", "badge bad", page.Text(none)))}
	}
	var list []*html.Node
	for _, m := range d.picture.managers {
		provider := ""
		if m.Provider != "" {
			provider = " (" + m.Provider + ")"
		}
		list = append(list,
			page.Element("p", "", page.Element("b", "", page.Text(m.Object)), page.Text(provider)),
			page.Element("p", "faint", page.Text(fmt.Sprintf("%d of %d pods run", m.Running, m.Pods))))
		switch {
		case m.Leader != "":
			list = append(list, page.Element("p", "", page.Element("span", "badge ok", page.Text("led by "+m.Leader))))
		case m.Main:
			list = append(list, page.Element("p", "", page.Element("span", "badge bad", page.Text("no leader"))))
		}
	}
	return list
}

func (d *Diagnosis) shownNodes(groups []nodeGroup) []*html.Node {
	if len(d.Nodes) == 0 {
		return []*html.Node{page.Element("p", "faint", page.Text("No Nodes were seen."))}
	}
	bar := page.Set(page.Set(page.Element("div", "bar"), "role", "img"), "aria-label", "Nodes by state")
	for _, g := range groups {
		part := page.Set(page.Element("i", g.Class), "style", fmt.Sprintf("flex: %d", g.Count))
		bar.AppendChild(page.Set(part, "title", fmt.Sprintf("%d %ss %s", g.Count, g.Role, g.State)))
	}
	return append([]*html.Node{bar}, shownGroups(groups, worker, len(d.Nodes))...)
}

// shownGroups are the groups of one role, with their share of all Nodes where there are any.
func shownGroups(groups []nodeGroup, role string, all int) []*html.Node {
	var list []*html.Node
	for _, g := range groups {
		if g.Role != role {
			continue
		}
		title := fmt.Sprintf("%d %s", g.Count, g.State)
		if all > 0 {
			title += fmt.Sprintf(" (%d %%)", max(1, g.Count*100/all))
		}
		tiles := page.Element("div", "tiles")
		for _, t := range g.Tiles {
			tile := page.Set(page.Element("span", "tile "+t.Class, page.Element("b", "", page.Text(t.Name))), "title", t.Detail)
			if t.Cause != "" {
				tile.AppendChild(page.Text(" " + t.Cause))
			}
			tiles.AppendChild(tile)
		}
		if more := g.Count - len(g.Tiles); more > 0 {
			tiles.AppendChild(page.Element("span", "tile faint", page.Text(fmt.Sprintf("and %d more", more))))
		}
		list = append(list, page.Element("p", "faint", page.Text(title)), tiles)
	}
	return list
}

// flow is a cause and what it blocks, in one line.
func flow(i int, c Cause) *html.Node {
	link := page.Element("a", "", page.Element("b", "", page.Text(string(c.ID))), page.Text(" "+c.Title))
	page.Set(link, "href", fmt.Sprintf("#finding-%d", i+1))
	blocks := "blocks nothing else"
	if len(c.Consequences) > 0 {
		blocks = "⇒"
	}
	line := page.Element("div", "flow", page.Element("span", "box", link), page.Element("span", "faint", page.Text(blocks)))
	for _, f := range c.Consequences {
		title := " " + f.Title
		if len(f.Objects) > 1 {
			title += fmt.Sprintf(" (%d)", len(f.Objects))
		}
		line.AppendChild(page.Element("span", "box", page.Element("b", "", page.Text(string(f.ID))), page.Text(title)))
	}
	return line
}

// article is a cause with everything that is known of it, and what to do at its end.
func article(i int, c Cause) *html.Node {
	severity := fmt.Sprint(c.Severity)
	a := page.Set(page.Element("article", "card finding "+severity,
		page.Element("h3", "", page.Element("span", "badge "+severity, page.Text(severity+" "+string(c.ID))), page.Text(c.Title+": "+about(c))),
		page.Element("p", "", page.Text(c.Message)),
	), "id", fmt.Sprintf("finding-%d", i+1))
	if c.Why != "" {
		a.AppendChild(page.Element("p", "faint", page.Text(c.Why)))
	}
	if len(c.Consequences) > 0 {
		list := page.Element("ul", "")
		for _, f := range c.Consequences {
			list.AppendChild(page.Element("li", "", page.Element("b", "", page.Text(string(f.ID))), page.Text(" "+f.Title+": "+about(f))))
		}
		a.AppendChild(page.Element("p", "", page.Text("Consequences, resolved with it:")))
		a.AppendChild(list)
	}
	a.AppendChild(page.Element("p", "", page.Element("b", "", page.Text("Do:")), page.Text(" "+c.Do)))
	if c.Next != "" {
		a.AppendChild(page.Element("pre", "", page.Text(c.Next)))
	}
	return a
}

func (d *Diagnosis) notSeen() *html.Node {
	list := page.Element("ul", "")
	for _, n := range d.NotSeen {
		reason := string(n.Reason)
		if reason == "" {
			reason = n.Message
		}
		list.AppendChild(page.Element("li", "", page.Text(n.What+": "+reason)))
	}
	c := page.Element("div", "card",
		page.Element("p", "faint", page.Text("Objects that could not be read are not treated as missing.")), list)
	if len(d.NotLooked) > 0 {
		names := strings.Join(slices.Sorted(maps.Keys(d.NotLooked)), ", ")
		c.AppendChild(page.Element("p", "faint", page.Text("Checks skipped for that reason: "+names+".")))
	}
	return c
}

// mostTiles is how many Nodes of one state are named on the page; the others are counted.
const mostTiles = 120

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

// class is one of three colours: it runs, it waits, no controller works on it.
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
