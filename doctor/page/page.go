// Package page writes pages of HTML that need nothing but themselves: no script, and nothing from elsewhere. Light and dark
// follow the browser's prefers-color-scheme.
//
// Start at [Write]. A page is a tree of elements and not a template: with text/template or html/template in the program the
// linker keeps every exported method of every type, which is 18 MB of ccmadm's 58.
//
// Reads: its embedded style. Writes: to the io.Writer that it is given.
// Running it twice: the same elements give the same page.
// It will not: let a text or an attribute become an element, or change the direction of the text around it. The name of a Node or
// of a context may be in it.
package page

import (
	"embed"
	"fmt"
	"io"
	"time"

	"golang.org/x/net/html"

	"github.com/ccmadm/ccmadm/api/finding"
)

//go:embed page.css
var styleFile embed.FS

// Write writes a page with a title and a body, which is an element "body". The error is that of the writer.
func Write(out io.Writer, title string, body *html.Node) error {
	style, err := styleFile.ReadFile("page.css")
	if err != nil {
		return fmt.Errorf("read the page's style: %w", err)
	}
	root := &html.Node{Type: html.DocumentNode}
	root.AppendChild(&html.Node{Type: html.DoctypeNode, Data: "html"})
	root.AppendChild(Set(Element("html", "", head(title, string(style)), body), "lang", "en"))
	if err := html.Render(out, root); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

func head(title, style string) *html.Node {
	return Element("head", "",
		Set(Element("meta", ""), "charset", "utf-8"),
		Set(Set(Element("meta", ""), "name", "viewport"), "content", "width=device-width, initial-scale=1"),
		Set(
			Set(Element("meta", ""), "http-equiv", "Content-Security-Policy"),
			"content", "default-src 'none'; style-src 'unsafe-inline'",
		),
		Element("title", "", Text(title)),
		Element("style", "", &html.Node{Type: html.TextNode, Data: style}),
	)
}

// Element is one of a page, with its classes and its content.
func Element(tag, class string, content ...*html.Node) *html.Node {
	e := &html.Node{Type: html.ElementNode, Data: tag}
	if class != "" {
		Set(e, "class", class)
	}
	for _, c := range content {
		e.AppendChild(c)
	}
	return e
}

// Set gives an element an attribute, and returns it.
func Set(e *html.Node, key, value string) *html.Node {
	e.Attr = append(e.Attr, html.Attribute{Key: key, Val: finding.Clean(value)})
	return e
}

// Text is whatever a cluster reports: without what changes a terminal or a text's direction, and escaped when it is
// written.
func Text(s string) *html.Node { return &html.Node{Type: html.TextNode, Data: finding.Clean(s)} }

// Heading is the head of a page: the command that has made it, what it found in one line, and what else is to be there.
func Heading(command, summary string, more ...*html.Node) *html.Node {
	return Element("header", "", append([]*html.Node{Element("h1", "", Text(command)), Element("p", "", Text(summary))}, more...)...)
}

// AsOf is when something was seen.
func AsOf(tag string, taken time.Time) *html.Node {
	return Element(tag, "faint", Text("as of "+taken.UTC().Format("2006-01-02 15:04:05 UTC")))
}

// Card is a box with a title.
func Card(title string, content ...*html.Node) *html.Node {
	return Element("div", "card", append([]*html.Node{Element("h3", "", Text(title))}, content...)...)
}

// Table is a table that scrolls by itself where the window is narrower. Each row is an element "tr".
func Table(header []string, rows ...*html.Node) *html.Node {
	names := Element("tr", "")
	for _, name := range header {
		names.AppendChild(Set(Element("th", "", Text(name)), "scope", "col"))
	}
	return Element("div", "scroll", Element("table", "", Element("thead", "", names), Element("tbody", "", rows...)))
}
