package e2e

import (
	"encoding/xml"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// junit is what Ginkgo writes of a suite; tests outside the focus are in it as skipped, without a message of their own.
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
	} `xml:"testsuite>testcase"`
}

// suiteResult is what became of a suite.
type suiteResult struct {
	passed  int
	failed  map[string]string // name to message
	skipped map[string]string // name to the test's own reason
}

func readJUnit(t *testing.T, content string) suiteResult {
	t.Helper()
	var report junit
	if err := xml.Unmarshal([]byte(content), &report); err != nil {
		t.Fatalf("read report: %v", err)
	}
	o := suiteResult{failed: map[string]string{}, skipped: map[string]string{}}
	for _, c := range report.Cases {
		name := strings.TrimPrefix(c.Name, "[It] ")
		switch {
		case name == c.Name && c.Status == "passed": // what comes before and behind all tests
		case c.Status == "passed":
			o.passed++
		case c.Status == "skipped" || c.Status == "pending":
			if c.Skipped != nil && strings.HasPrefix(c.Skipped.Message, "skipped - ") {
				o.skipped[name] = strings.TrimPrefix(c.Skipped.Message, "skipped - ")
			}
		default:
			o.failed[name] = c.Status
			if c.Failure != nil {
				o.failed[name] = c.Failure.Message
			}
		}
	}
	return o
}

// judge fails the test for what failed without a known reason, and writes the rows of the page.
func (c *upstreamCluster) judge(t *testing.T, s suite, level v1alpha1.Level, report string, took time.Duration) {
	t.Helper()
	o := readJUnit(t, report)
	which := fmt.Sprintf("%s, %s, %s, %s", s.name, *kubernetesMinor, level, *proxyMode)
	t.Logf("%s: %d passed, %d failed, %d skipped, in %s", which, o.passed, len(o.failed), len(o.skipped), took.Round(time.Second))
	if o.passed == 0 {
		t.Errorf("no test of %s passed: is %q the name of one?", s.name, s.focus)
	}
	var rows strings.Builder
	fmt.Fprintf(&rows, "| %s | %s | %s | %s | %d | %d | %d | %s |\n", s.name, *kubernetesMinor, level, *proxyMode, o.passed,
		len(o.failed), len(o.skipped), time.Now().UTC().Format(time.DateOnly))
	var details strings.Builder
	for name, message := range o.failed {
		why := because(s.known[level], name)
		if why == "" {
			t.Errorf("%s: %s", name, message)
			why = "**not explained**"
		}
		fmt.Fprintf(&details, "| %s | failed | %s | %s |\n", which, firstLine(name), why)
	}
	if t.Failed() {
		c.explainFailures(t)
	}
	for name, message := range o.skipped {
		fmt.Fprintf(&details, "| %s | skipped by itself | %s | %s |\n", which, firstLine(name), firstLine(message))
	}
	for _, r := range s.leave {
		fmt.Fprintf(&details, "| %s | left out | `%s` | %s |\n", s.name, cell(r.tests), r.why)
	}
	writeMeasured(t, fmt.Sprintf("upstream-%s-%s-%s-%s", *kubernetesMinor, *proxyMode, level, s.name), rows.String(), details.String())
}

// because returns why a test is known to fail, or nothing.
func because(known []reason, name string) string {
	for _, r := range known {
		if regexp.MustCompile(r.tests).MatchString(name) {
			return r.why
		}
	}
	return ""
}

// explainFailures prints what Ginkgo wrote about tests that failed.
func (c *upstreamCluster) explainFailures(t *testing.T) {
	t.Helper()
	t.Log(c.sh(t, upstreamClient, fmt.Sprintf("grep -nF -A80 -e '[FAILED]' %s/log | tail -n 120", upstreamReports)).out)
}

// firstLine fits into a cell of the page.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return cell(line)
}

// writeMeasured keeps rows until `make upstream` puts the page together.
func writeMeasured(t *testing.T, name, rows, details string) {
	t.Helper()
	name = strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), ",", "")
	for suffix, content := range map[string]string{".rows": rows, ".details": details} {
		if err := os.WriteFile(measuredFile(t, name+suffix), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
