package diagnosis

import (
	"embed"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"golang.org/x/net/html"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

//go:embed page.css
var pageFile embed.FS

// WriteHTML writes a diagnosis as one page that needs nothing but itself: no script, and nothing from elsewhere.
//
// The page is a tree of elements and not a template: with text/template or html/template in the program the linker
// keeps every exported method of every type, which is 18 MB of ccmadm's 58.
func (d *Diagnosis) WriteHTML(out io.Writer) error {
	style, err := pageFile.ReadFile("page.css")
	if err != nil {
		return fmt.Errorf("read the page's style: %w", err)
	}
	page := &html.Node{Type: html.DocumentNode}
	page.AppendChild(&html.Node{Type: html.DoctypeNode, Data: "html"})
	page.AppendChild(set(element("html", "", d.head(string(style)), d.body()), "lang", "en"))
	if err := html.Render(out, page); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

func (d *Diagnosis) head(style string) *html.Node {
	return element("head", "",
		set(element("meta", ""), "charset", "utf-8"),
		set(set(element("meta", ""), "name", "viewport"), "content", "width=device-width, initial-scale=1"),
		set(
			set(element("meta", ""), "http-equiv", "Content-Security-Policy"),
			"content", "default-src 'none'; style-src 'unsafe-inline'",
		),
		element("title", "", text("ccmadm doctor: "+d.Summary)),
		element("style", "", &html.Node{Type: html.TextNode, Data: style}),
	)
}

func (d *Diagnosis) body() *html.Node {
	groups := d.groups()
	body := element("body", "",
		element("header", "", element("h1", "", text("ccmadm doctor")), element("p", "", text(d.Summary)), d.counts()),
		element("h2", "", text("The cluster")),
		element("section", "picture",
			card("Control planes", shownGroups(groups, controlPlane, 0)...),
			element("div", "arrow", text("→")),
			card("Cloud-controller-manager", d.shownManagers()...),
			element("div", "arrow", text("→")),
			card("Nodes by state", d.shownNodes(groups)...),
		),
	)
	if len(d.Causes) > 0 {
		body.AppendChild(element("h2", "", text("What blocks what")))
		for i, c := range d.Causes {
			body.AppendChild(flow(i, c))
		}
		body.AppendChild(element("h2", "", text("Findings")))
		for i, c := range d.Causes {
			body.AppendChild(article(i, c))
		}
	}
	if len(d.NotSeen) > 0 {
		body.AppendChild(element("h2", "", text("Not seen")))
		body.AppendChild(d.notSeen())
	}
	return body
}

func (d *Diagnosis) counts() *html.Node {
	counts := element("p", "counts")
	errors, warnings := d.Count()
	if errors > 0 {
		counts.AppendChild(element("span", "error", text(finding.Count(errors, "error"))))
	}
	if warnings > 0 {
		counts.AppendChild(element("span", "warning", text(finding.Count(warnings, "warning"))))
	}
	if !d.Wrong() {
		class := "ok"
		if len(d.NotSeen) > 0 {
			class = "waits"
		}
		counts.AppendChild(element("span", class, text("nothing is wrong"+d.asFarAsSeen())))
	}
	counts.AppendChild(element("small", "faint", text("as of "+d.picture.taken.UTC().Format("2006-01-02 15:04:05 UTC"))))
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
		return []*html.Node{element("p", "", element("span", "badge bad", text(none)))}
	}
	var list []*html.Node
	for _, m := range d.picture.managers {
		provider := ""
		if m.Provider != "" {
			provider = " (" + m.Provider + ")"
		}
		list = append(list,
			element("p", "", element("b", "", text(m.Object)), text(provider)),
			element("p", "faint", text(fmt.Sprintf("%d of %d pods run", m.Running, m.Pods))))
		switch {
		case m.Leader != "":
			list = append(list, element("p", "", element("span", "badge ok", text("led by "+m.Leader))))
		case m.Main:
			list = append(list, element("p", "", element("span", "badge bad", text("no leader"))))
		}
	}
	return list
}

func (d *Diagnosis) shownNodes(groups []nodeGroup) []*html.Node {
	if len(d.Nodes) == 0 {
		return []*html.Node{element("p", "faint", text("No Nodes were seen."))}
	}
	bar := set(set(element("div", "bar"), "role", "img"), "aria-label", "Nodes by state")
	for _, g := range groups {
		part := set(element("i", g.Class), "style", fmt.Sprintf("flex: %d", g.Count))
		bar.AppendChild(set(part, "title", fmt.Sprintf("%d %ss %s", g.Count, g.Role, g.State)))
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
		tiles := element("div", "tiles")
		for _, t := range g.Tiles {
			tile := set(element("span", "tile "+t.Class, element("b", "", text(t.Name))), "title", t.Detail)
			if t.Cause != "" {
				tile.AppendChild(text(" " + t.Cause))
			}
			tiles.AppendChild(tile)
		}
		if more := g.Count - len(g.Tiles); more > 0 {
			tiles.AppendChild(element("span", "tile faint", text(fmt.Sprintf("and %d more", more))))
		}
		list = append(list, element("p", "faint", text(title)), tiles)
	}
	return list
}

// flow is a cause and what it blocks, in one line.
func flow(i int, c Cause) *html.Node {
	link := element("a", "", element("b", "", text(string(c.ID))), text(" "+c.Title))
	set(link, "href", fmt.Sprintf("#finding-%d", i+1))
	blocks := "blocks nothing else"
	if len(c.Consequences) > 0 {
		blocks = "⇒"
	}
	line := element("div", "flow", element("span", "box", link), element("span", "faint", text(blocks)))
	for _, f := range c.Consequences {
		title := " " + f.Title
		if len(f.Objects) > 1 {
			title += fmt.Sprintf(" (%d)", len(f.Objects))
		}
		line.AppendChild(element("span", "box", element("b", "", text(string(f.ID))), text(title)))
	}
	return line
}

// article is a cause with everything that is known of it, and what to do at its end.
func article(i int, c Cause) *html.Node {
	severity := fmt.Sprint(c.Severity)
	a := set(element("article", "card finding "+severity,
		element("h3", "", element("span", "badge "+severity, text(severity+" "+string(c.ID))), text(c.Title+": "+about(c))),
		element("p", "", text(c.Message)),
	), "id", fmt.Sprintf("finding-%d", i+1))
	if c.Why != "" {
		a.AppendChild(element("p", "faint", text(c.Why)))
	}
	if len(c.Consequences) > 0 {
		list := element("ul", "")
		for _, f := range c.Consequences {
			list.AppendChild(element("li", "", element("b", "", text(string(f.ID))), text(" "+f.Title+": "+about(f))))
		}
		a.AppendChild(element("p", "", text("Consequences, resolved with it:")))
		a.AppendChild(list)
	}
	a.AppendChild(element("p", "", element("b", "", text("Do:")), text(" "+c.Do)))
	if c.Next != "" {
		a.AppendChild(element("pre", "", text(c.Next)))
	}
	return a
}

func (d *Diagnosis) notSeen() *html.Node {
	list := element("ul", "")
	for _, n := range d.NotSeen {
		reason := string(n.Reason)
		if reason == "" {
			reason = n.Message
		}
		list.AppendChild(element("li", "", text(n.What+": "+reason)))
	}
	c := element("div", "card",
		element("p", "faint", text("Objects that could not be read are not treated as missing.")), list)
	if len(d.NotLooked) > 0 {
		names := strings.Join(slices.Sorted(maps.Keys(d.NotLooked)), ", ")
		c.AppendChild(element("p", "faint", text("Checks skipped for that reason: "+names+".")))
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

func card(title string, content ...*html.Node) *html.Node {
	return element("div", "card", append([]*html.Node{element("h3", "", text(title))}, content...)...)
}

// element is one of a page, with its classes and what is in it.
func element(tag, class string, content ...*html.Node) *html.Node {
	e := &html.Node{Type: html.ElementNode, Data: tag}
	if class != "" {
		set(e, "class", class)
	}
	for _, c := range content {
		e.AppendChild(c)
	}
	return e
}

// set gives an element an attribute, and returns it.
func set(e *html.Node, key, value string) *html.Node {
	e.Attr = append(e.Attr, html.Attribute{Key: key, Val: finding.Clean(value)})
	return e
}

// text is whatever a cluster says: without what changes a terminal or a text's direction, and escaped when it is
// written.
func text(s string) *html.Node { return &html.Node{Type: html.TextNode, Data: finding.Clean(s)} }
