package lbtest

import (
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// suiteName is what build servers show.
const suiteName = "ccmadm lb test"

// junit writes elements token by token: what encodes structs by reflection would be a hundredth of the program.
type junit struct {
	*xml.Encoder
	err error
}

// attribute is a name and its value.
type attribute [2]string

// element writes one, with what is in it.
func (j *junit) element(name string, attributes []attribute, content func()) {
	start := xml.StartElement{Name: xml.Name{Local: name}}
	for _, a := range attributes {
		start.Attr = append(start.Attr, xml.Attr{Name: xml.Name{Local: a[0]}, Value: a[1]})
	}
	j.token(start)
	if content != nil {
		content()
	}
	j.token(start.End())
}

func (j *junit) token(t xml.Token) {
	if j.err == nil {
		j.err = j.EncodeToken(t)
	}
}

// WriteJUnit writes the report as JUnit's XML, as build servers read it.
func (r *Report) WriteJUnit(out io.Writer) error {
	if _, err := io.WriteString(out, xml.Header); err != nil {
		return err
	}
	j := &junit{Encoder: xml.NewEncoder(out)}
	j.Indent("", "  ")
	j.element("testsuites", nil, func() {
		j.element("testsuite", []attribute{
			{"name", suiteName}, {"tests", strconv.Itoa(len(r.Checks))}, {"failures", strconv.Itoa(r.Count(Fail))},
			{"errors", strconv.Itoa(r.Count(Error))}, {"skipped", strconv.Itoa(r.Count(Skip))}, {"time", junitTime(r.Seconds)},
			{"timestamp", r.Started.UTC().Format("2006-01-02T15:04:05")},
		}, func() { r.junitContent(j) })
	})
	if j.err == nil {
		j.err = j.Close()
	}
	if j.err != nil {
		return fmt.Errorf("encode JUnit's XML: %w", j.err)
	}
	_, err := fmt.Fprintln(out)
	return err
}

func (r *Report) junitContent(j *junit) {
	j.element("properties", nil, func() {
		for _, p := range []attribute{
			{"run", r.Run}, {"namespace", r.Namespace}, {"implementation", r.Implementation}, {"apiRetries", strconv.Itoa(r.Retries)},
		} {
			j.element("property", []attribute{{"name", p[0]}, {"value", p[1]}}, nil)
		}
	})
	names := map[Verdict]string{Fail: "failure", Error: "error", Skip: "skipped"}
	for _, c := range r.Checks {
		j.element("testcase", []attribute{{"name", c.Name}, {"classname", suiteName}, {"time", junitTime(c.Seconds)}}, func() {
			if name := names[c.Result]; name != "" {
				j.element(name, []attribute{{"message", c.Reason}}, nil)
			}
			lines := append([]string{c.Asked, fmt.Sprintf("lost requests: %d", c.Lost)}, c.Notes...)
			j.element("system-out", nil, func() { j.token(xml.CharData(strings.Join(lines, "\n"))) })
		})
	}
}

func junitTime(seconds float64) string { return strconv.FormatFloat(seconds, 'f', 1, 64) }
