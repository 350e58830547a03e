package lint

import (
	"io"
	"net/url"
	"path/filepath"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"github.com/ccmadm/ccmadm/api/finding"
)

// WriteSARIF writes findings for code scanning services. SARIF's levels are called as our severities are.
func WriteSARIF(out io.Writer, version string, rules []finding.Kind, findings []finding.Finding) error {
	run := sarif.NewRunWithInformationURI("ccmadm", "https://github.com/ccmadm/ccmadm")
	run.Tool.Driver.WithVersion(version)
	text := func(s string) *sarif.MultiformatMessageString { return sarif.NewMultiformatMessageString().WithText(s) }
	for _, r := range rules {
		rule := run.AddRule(string(r.ID)).WithShortDescription(text(r.Title)).WithFullDescription(text(r.Why)).WithHelp(text(r.Do)).
			WithDefaultConfiguration(sarif.NewReportingConfiguration().WithLevel(string(r.Severity)))
		if len(r.Links) > 0 {
			rule.WithHelpURI(finding.Address(r.Links[0]))
		}
	}
	for _, f := range findings {
		where := sarif.NewLocation().AddLogicalLocation(sarif.NewLogicalLocation().WithFullyQualifiedName(f.Object))
		if f.File != "" {
			where.WithPhysicalLocation(sarif.NewPhysicalLocation().
				WithArtifactLocation(sarif.NewArtifactLocation().WithURI(fileURI(f.File))).
				WithRegion(sarif.NewRegion().WithStartLine(f.Line).WithStartColumn(f.Column)))
		}
		run.AddResult(sarif.NewRuleResult(string(f.ID)).WithLevel(string(f.Severity)).
			WithMessage(sarif.NewTextMessage(f.Message + ". Do: " + f.Do)).AddLocation(where))
	}
	return sarif.NewReport().AddRun(run).PrettyWrite(out)
}

// fileURI returns a path as a reference, in which spaces and the like are escaped.
func fileURI(path string) string {
	return (&url.URL{Path: filepath.ToSlash(path)}).String()
}
