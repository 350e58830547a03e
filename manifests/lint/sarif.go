package lint

import (
	"encoding/json"
	"io"
	"net/url"
	"path/filepath"

	"github.com/ccmadm/ccmadm/api/finding"
)

// The part of SARIF 2.1.0 (https://docs.oasis-open.org/sarif/sarif/v2.1.0/) that a list of findings needs.
type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool    sarifTool     `json:"tool"`
	Results []sarifResult `json:"results"`
}

type sarifTool struct {
	Driver sarifDriver `json:"driver"`
}

type sarifDriver struct {
	Name           string      `json:"name"`
	Version        string      `json:"version"`
	InformationURI string      `json:"informationUri"`
	Rules          []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID                   string             `json:"id"`
	ShortDescription     sarifText          `json:"shortDescription"`
	FullDescription      sarifText          `json:"fullDescription"`
	Help                 sarifText          `json:"help"`
	HelpURI              string             `json:"helpUri,omitempty"`
	DefaultConfiguration sarifConfiguration `json:"defaultConfiguration"`
}

type sarifConfiguration struct {
	Level finding.Severity `json:"level"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifResult struct {
	RuleID    string           `json:"ruleId"`
	Level     finding.Severity `json:"level"`
	Message   sarifText        `json:"message"`
	Locations []sarifLocation  `json:"locations"`
}

type sarifLocation struct {
	Physical *sarifPhysical `json:"physicalLocation,omitempty"` // nil: in no file
	Logical  []sarifLogical `json:"logicalLocations"`
}

type sarifPhysical struct {
	Artifact sarifArtifact `json:"artifactLocation"`
	Region   sarifRegion   `json:"region"`
}

type sarifArtifact struct {
	URI string `json:"uri"`
}

type sarifRegion struct {
	StartLine   int `json:"startLine"`
	StartColumn int `json:"startColumn"`
}

type sarifLogical struct {
	FullyQualifiedName string `json:"fullyQualifiedName"`
}

// WriteSARIF writes findings for code scanning services. SARIF's levels are called as our severities are.
func WriteSARIF(out io.Writer, version string, rules []finding.Kind, findings []finding.Finding) error {
	run := sarifRun{
		Tool:    sarifTool{sarifDriver{Name: "ccmadm", Version: version, InformationURI: "https://github.com/ccmadm/ccmadm"}},
		Results: []sarifResult{},
	}
	for _, r := range rules {
		rule := sarifRule{
			ID:                   string(r.ID),
			ShortDescription:     sarifText{r.Title},
			FullDescription:      sarifText{r.Why},
			Help:                 sarifText{r.Do},
			DefaultConfiguration: sarifConfiguration{r.Severity},
		}
		if len(r.Links) > 0 {
			rule.HelpURI = finding.Address(r.Links[0])
		}
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, rule)
	}
	for _, f := range findings {
		where := sarifLocation{Logical: []sarifLogical{{f.Object}}}
		if f.File != "" {
			where.Physical = &sarifPhysical{sarifArtifact{fileURI(f.File)}, sarifRegion{f.Line, f.Column}}
		}
		run.Results = append(run.Results, sarifResult{
			RuleID: string(f.ID), Level: f.Severity, Message: sarifText{f.Message + ". Do: " + f.Do}, Locations: []sarifLocation{where},
		})
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(
		sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}},
	)
}

// fileURI returns a path as a reference, in which spaces and the like are escaped.
func fileURI(path string) string {
	return (&url.URL{Path: filepath.ToSlash(path)}).String()
}
