package contexts

import (
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/net/html"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/doctor/page"
)

// WritePage writes the rows as one page of HTML that needs nothing but itself.
func WritePage(out io.Writer, rows []Row, taken time.Time) error {
	counts := map[string]int{}
	var list []*html.Node
	for i := range rows {
		r := &rows[i]
		counts[r.class()]++
		list = append(list, tableRow(r.class(), r.cells(true)))
	}
	summary := fmt.Sprintf("%s: %d ready, %d not ready, %d cannot be asked",
		finding.Count(len(rows), "context"), counts["ok"], counts["waits"], counts["bad"])
	body := page.Element("body", "", heading(summary, taken), page.Table(header(true), list...),
		page.Element("p", "faint", page.Text("? is what could not be read, and - what does not exist. "+
			"FINDINGS are errors/warnings of the doctor.")))
	return page.Write(out, "ccmadm status: "+summary, body)
}

// WriteCluster writes the report of one cluster as a page of HTML; lines are what else there is to say of it.
func WriteCluster(out io.Writer, report *nodes.Report, lines []string, taken time.Time) error {
	var list []*html.Node
	ready := 0
	for _, s := range report.Nodes {
		class, cause := "waits", ""
		if s.State == nodes.Ready {
			ready++
		}
		if s.State >= nodes.Addressed {
			class = "ok"
		}
		if s.Cause != nil {
			class, cause = "bad", string(s.Cause.ID)+": "+s.Cause.Message
		}
		list = append(list, tableRow(class, []string{
			s.Node, s.State.String(), s.ProviderID, strings.Join(s.InternalIPs, ", "), s.Zone, s.Version, cause,
		}))
	}
	wrong, next, warnings := report.Verdict()
	summary := fmt.Sprintf("%d of %s Ready", ready, finding.Count(len(report.Nodes), "Node"))
	body := page.Element("body", "", heading(summary, taken))
	if report.Leader != "" {
		body.AppendChild(page.Element("p", "", page.Text("cloud-controller-manager: led by "+report.Leader)))
	}
	body.AppendChild(page.Table([]string{"NODE", "STATE", "PROVIDER-ID", "INTERNAL-IP", "ZONE", "VERSION", "CAUSE"}, list...))
	for _, part := range []struct {
		title string
		texts []string
	}{{"Not ready", wrong}, {"Next", next}, {"Warnings", warnings}, {"Also", lines}} {
		if len(part.texts) > 0 {
			body.AppendChild(page.Element("h2", "", page.Text(part.title)))
			body.AppendChild(items(part.texts))
		}
	}
	return page.Write(out, "ccmadm status: "+summary, body)
}

func heading(summary string, taken time.Time) *html.Node {
	return page.Heading("ccmadm status", summary, page.AsOf("p", taken))
}

// tableRow has a cell for each text. The last is a sentence.
func tableRow(class string, cells []string) *html.Node {
	row := page.Element("tr", class)
	for i, cell := range cells {
		wide := ""
		if i == len(cells)-1 {
			wide = "wide"
		}
		if cell == "" {
			cell = "-"
		}
		row.AppendChild(page.Element("td", wide, page.Text(cell)))
	}
	return row
}

func items(texts []string) *html.Node {
	list := page.Element("ul", "")
	for _, text := range texts {
		list.AppendChild(page.Element("li", "", page.Text(text)))
	}
	return list
}
