package e2e

import (
	"encoding/xml"
	"regexp"
	"strings"
	"testing"
)

// junit is what Ginkgo writes of a suite. It has every test of the program: those that did not run are skipped in it, without
// a message of their own.
type junit struct {
	Cases []struct {
		Name    string `xml:"name,attr"`
		Status  string `xml:"status,attr"`
		Skipped *struct {
			Message string `xml:"message,attr"`
		} `xml:"skipped"`
		Failure *struct {
			Message string `xml:"message,attr"`
		} `xml:"failure"`
		Error *struct {
			Message string `xml:"message,attr"`
		} `xml:"error"`
	} `xml:"testsuite>testcase"`
}

// suiteOutcome is what became of tests.
type suiteOutcome struct {
	passed  []string
	failed  map[string]string // name to message
	alone   map[string]string // passed in a second run, alone: name to the first run's message
	skipped map[string]string // name to the test's own reason
	idle    []string          // did not run
}

func readJUnit(t *testing.T, content string) suiteOutcome {
	t.Helper()
	var report junit
	if err := xml.Unmarshal([]byte(content), &report); err != nil {
		t.Fatalf("read report: %v", err)
	}
	o := suiteOutcome{failed: map[string]string{}, alone: map[string]string{}, skipped: map[string]string{}}
	for _, c := range report.Cases {
		name := strings.TrimPrefix(c.Name, "[It] ")
		switch {
		case name == c.Name && c.Status == "passed": // what runs before and after all tests
		case c.Status == "passed":
			o.passed = append(o.passed, name)
		case c.Status == "skipped" || c.Status == "pending":
			if c.Skipped != nil && strings.HasPrefix(c.Skipped.Message, "skipped - ") {
				o.skipped[name] = strings.TrimPrefix(c.Skipped.Message, "skipped - ")
			} else if name != c.Name {
				o.idle = append(o.idle, name)
			}
		default:
			o.failed[name] = c.Status
			if c.Failure != nil {
				o.failed[name] = c.Failure.Message
			} else if c.Error != nil {
				o.failed[name] = c.Status + ": " + c.Error.Message
			}
		}
	}
	return o
}

// withoutLabels is the text of a test, which Ginkgo's -focus and -skip are compared with. A report has its labels behind it.
func withoutLabels(name string) string {
	return regexp.MustCompile(` \[[^\[\]]*\]$`).ReplaceAllString(name, "")
}

// because returns why a test is known to fail, or is left out, or nothing.
func because(known []reason, name string) string {
	for _, r := range known {
		if regexp.MustCompile(r.tests).MatchString(name) {
			return r.why
		}
	}
	return ""
}
