package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"time"
)

//go:embed vex/ccmadm.openvex.json
var vexFile embed.FS

// vexDocument is an OpenVEX document (https://github.com/openvex/spec, version 0.2.0), as far as ours has its fields. It is kept by
// hand: a statement says why a vulnerability of a module does not matter here.
type vexDocument struct {
	Context    string         `json:"@context"`
	ID         string         `json:"@id"`
	Author     string         `json:"author"`
	Role       string         `json:"role"`
	Timestamp  time.Time      `json:"timestamp"`
	Version    int            `json:"version"`
	Statements []vexStatement `json:"statements"`
}

type vexStatement struct {
	Vulnerability struct {
		Name    string   `json:"name"`
		Aliases []string `json:"aliases,omitempty"`
	} `json:"vulnerability"`
	Products        []vexProduct `json:"products"`
	Status          string       `json:"status"`
	Justification   string       `json:"justification,omitempty"`
	ImpactStatement string       `json:"impact_statement,omitempty"`
	ActionStatement string       `json:"action_statement,omitempty"`
}

type vexProduct struct {
	ID            string       `json:"@id"`
	Subcomponents []vexProduct `json:"subcomponents,omitempty"`
}

const (
	vexContext     = "https://openvex.dev/ns/v0.2.0"
	vexProductID   = "pkg:golang/github.com/ccmadm/ccmadm"
	vexNotAffected = "not_affected"
	vexAffected    = "affected"
)

// readVEX returns the document, and its bytes as they are published.
func readVEX() (vexDocument, []byte, error) {
	data, err := vexFile.ReadFile("vex/ccmadm.openvex.json")
	if err != nil {
		return vexDocument{}, nil, err
	}
	doc, err := parseVEX(data)
	return doc, data, err
}

// parseVEX refuses what the specification does not allow, and fields that it has not.
func parseVEX(data []byte) (vexDocument, error) {
	var doc vexDocument
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&doc); err != nil {
		return doc, fmt.Errorf("read the OpenVEX document: %w", err)
	}
	var wrong []error
	if doc.Context != vexContext || doc.ID == "" || doc.Author == "" || doc.Timestamp.IsZero() || doc.Version < 1 || len(doc.Statements) == 0 {
		wrong = append(wrong, fmt.Errorf("want @context %s, @id, author, timestamp, version and statements", vexContext))
	}
	seen := map[string]bool{}
	for i, s := range doc.Statements {
		if err := s.check(); err != nil {
			wrong = append(wrong, fmt.Errorf("statements[%d] (%s): %w", i, s.Vulnerability.Name, err))
		}
		if seen[s.Vulnerability.Name] {
			wrong = append(wrong, fmt.Errorf("statements[%d]: %s has a statement already", i, s.Vulnerability.Name))
		}
		seen[s.Vulnerability.Name] = true
	}
	if err := errors.Join(wrong...); err != nil {
		return doc, fmt.Errorf("check the OpenVEX document: %w", err)
	}
	return doc, nil
}

// check holds a statement to the specification: one that nobody is affected says why, and one that somebody is what to do.
func (s vexStatement) check() error {
	justifications := []string{
		"component_not_present", "vulnerable_code_not_present", "vulnerable_code_not_in_execute_path",
		"vulnerable_code_cannot_be_controlled_by_adversary", "inline_mitigations_already_exist",
	}
	switch {
	case !slices.ContainsFunc(s.names(), regexp.MustCompile(`^(CVE-\d{4}-\d{4,}|GO-\d{4}-\d{4,}|GHSA(-[0-9a-z]{4}){3})$`).MatchString):
		return errors.New("vulnerability: want the name of a CVE, a GO or a GHSA entry")
	case len(s.Products) != 1 || s.Products[0].ID != vexProductID:
		return fmt.Errorf("products: want %s", vexProductID)
	case !slices.Contains([]string{vexNotAffected, vexAffected, "fixed", "under_investigation"}, s.Status):
		return fmt.Errorf("status: %q is none of OpenVEX", s.Status)
	case s.Status == vexNotAffected && (!slices.Contains(justifications, s.Justification) || s.ImpactStatement == ""):
		return errors.New("justification, impact_statement: want one of OpenVEX, and a reason in words")
	case s.Status == vexAffected && s.ActionStatement == "":
		return errors.New("action_statement: want what users do")
	}
	return nil
}

func (s vexStatement) names() []string {
	return append([]string{s.Vulnerability.Name}, s.Vulnerability.Aliases...)
}

// excuses tells whether a statement says that a vulnerability, by any of its names, does not affect the product.
func (d vexDocument) excuses(names []string) bool {
	return slices.ContainsFunc(d.Statements, func(s vexStatement) bool {
		return s.Status == vexNotAffected &&
			slices.ContainsFunc(s.names(), func(name string) bool { return slices.Contains(names, name) })
	})
}

func writeVEX(file string) error {
	_, data, err := readVEX()
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}
