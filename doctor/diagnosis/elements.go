package diagnosis

import (
	"fmt"

	"golang.org/x/net/html"

	"github.com/ccmadm/ccmadm/api/finding"
)

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

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
