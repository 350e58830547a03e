package lint

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/manifests/lint"
)

// Code scanning services refuse what is not SARIF by its schema.
func TestLint_SARIFKeepsItsSchema(t *testing.T) {
	var findings []finding.Finding
	for i, r := range Rules() {
		findings = append(findings, finding.Finding{
			Kind: r, File: "my manifests/ccm.yaml", Line: i + 1, Column: 1,
			Object: "DaemonSet/kube-system/ccm", Message: r.Title,
		})
	}
	for name, findings := range map[string][]finding.Finding{"every rule": findings, "no finding": nil} {
		t.Run(name, func(t *testing.T) {
			report := sarifOf(t, findings)
			if err := report.Validate(); err != nil {
				t.Error(err)
			}
			if got := len(report.Runs[0].Results); got != len(findings) {
				t.Errorf("got %d results, want %d", got, len(findings))
			}
		})
	}
	// The schema is looked at.
	findings[0].Severity = "fatal"
	if err := sarifOf(t, findings).Validate(); err == nil {
		t.Error("a level that SARIF does not know is taken for one")
	}
}

// sarifOf writes findings and reads them back, as a report in which nothing is unknown to the standard.
func sarifOf(t *testing.T, findings []finding.Finding) *sarif.Report {
	t.Helper()
	var out bytes.Buffer
	if err := lint.WriteSARIF(&out, "v0.0.0", Rules(), findings); err != nil {
		t.Fatal(err)
	}
	if len(findings) > 0 && !strings.Contains(out.String(), `"uri": "my%20manifests/ccm.yaml"`) {
		t.Error("the path is not a URI")
	}
	decoder := json.NewDecoder(bytes.NewReader(out.Bytes()))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&sarif.Report{}); err != nil {
		t.Fatal(err)
	}
	report, err := sarif.FromBytes(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	// The defaults that the library does not write.
	run := report.Runs[0].WithLanguage("en-US").WithNewlineSequences([]string{"\n"})
	run.Tool.Driver.WithLanguage("en-US")
	return report
}
