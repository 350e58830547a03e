package lbtest

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// suiteName is what build servers show.
const suiteName = "ccmadm lb test"

// junit writes elements, and has package xml escape texts: what encodes structs by reflection would make the program larger by a
// hundredth.
type junit struct {
	bytes.Buffer
	depth int
}

// attribute is a name and its value.
type attribute [2]string

// element writes one, with what is in it.
func (j *junit) element(name string, attributes []attribute, content func()) {
	j.open(name, attributes)
	if content == nil {
		j.WriteString("/>\n")
		return
	}
	j.WriteString(">\n")
	j.depth++
	content()
	j.depth--
	j.WriteString(j.indent() + "</" + name + ">\n")
}

// text writes an element that has only text.
func (j *junit) text(name, text string) {
	j.open(name, nil)
	j.WriteString(">" + escaped(text) + "</" + name + ">\n")
}

func (j *junit) open(name string, attributes []attribute) {
	j.WriteString(j.indent() + "<" + name)
	for _, a := range attributes {
		j.WriteString(" " + a[0] + `="` + escaped(a[1]) + `"`)
	}
}

func (j *junit) indent() string { return strings.Repeat("  ", j.depth) }

// escaped is a text for an attribute or between elements. A character that XML does not have becomes U+FFFD.
func escaped(text string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(text)) // a buffer takes all
	return b.String()
}

// WriteJUnit writes the report as JUnit's XML, as build servers read it.
func (r *Report) WriteJUnit(out io.Writer) error {
	j := &junit{}
	j.WriteString(xml.Header)
	j.element("testsuites", nil, func() {
		j.element("testsuite", []attribute{
			{"name", suiteName},
			{"tests", strconv.Itoa(len(r.Checks))},
			{"failures", strconv.Itoa(r.Count(Fail))},
			{"errors", strconv.Itoa(r.Count(Error))},
			{"skipped", strconv.Itoa(r.Count(Skip))},
			{"time", junitTime(r.Seconds)},
			{"timestamp", r.Started.UTC().Format("2006-01-02T15:04:05")},
		}, func() { r.junitContent(j) })
	})
	_, err := out.Write(j.Bytes())
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
			j.text("system-out", strings.Join(lines, "\n"))
		})
	}
}

func junitTime(seconds float64) string { return strconv.FormatFloat(seconds, 'f', 1, 64) }
