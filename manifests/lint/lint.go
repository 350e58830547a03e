// Package lint finds the mistakes in manifests of a cloud-controller-manager that block the bootstrap of a cluster, and
// fixes those that have one right answer.
//
// Start at [Parse] and [Set.Check]; [Rules] is the list of all that is looked for, [Fix] fixes. What the fixed pods
// get comes from what ccmadm gives its own (package manifests).
//
// Reads: the manifests that it is given, and the built-in profiles. Writes: nothing; [File.Bytes] is the text with the
// fixes, in which everything else is as it was. A second [Fix] changes nothing. Kinds that it does not know are passed
// over, and no cluster is ever asked.
package lint

import (
	"cmp"
	"slices"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// Severity says how bad a finding is.
type Severity string

// The severities.
const (
	// Error blocks the bootstrap of a cluster.
	Error Severity = "error"
	// Warning breaks something later, or elsewhere.
	Warning Severity = "warning"
)

// Rule is one mistake that is looked for.
type Rule struct {
	// ID names it for ever.
	ID string `json:"id"`
	// Title is the mistake in a few words.
	Title string `json:"title"`
	// Severity is that of its findings.
	Severity Severity `json:"severity"`
	// Why says what happens.
	Why string `json:"why"`
	// Do says what to change.
	Do string `json:"do"`
	// Links are the upstream issues and sources, as owner/repository#number or a URL.
	Links []string `json:"links,omitempty"`

	workload func(*workload) []problem
	set      func(*Set) []problem
}

// Finding is one mistake that was found.
type Finding struct {
	// Rule is the ID of the rule.
	Rule string `json:"rule"`
	// Severity is Error or Warning.
	Severity Severity `json:"severity"`
	// File, Line and Column say where.
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	// Object is Kind/namespace/name, or Kind/name.
	Object string `json:"object"`
	// Message says what is wrong there.
	Message string `json:"message"`
	// Do says what to change.
	Do string `json:"do"`
	// Fixable says that there is a Fix.
	Fixable bool `json:"fixable"`
	// Fix changes the text. Nil where only a person can know.
	Fix func() error `json:"-"`
}

// problem is what a rule knows about a finding.
type problem struct {
	object  *object
	at      *yaml.Node // nil: the object
	message string
	fix     func() error
}

// Check returns what is wrong, by file and line.
func (s *Set) Check() ([]Finding, error) {
	if err := s.read(); err != nil {
		return nil, err
	}
	var findings []Finding
	for _, r := range Rules() {
		var problems []problem
		if r.set != nil {
			problems = r.set(s)
		}
		for _, w := range s.workloads {
			if r.workload != nil {
				problems = append(problems, r.workload(w)...)
			}
		}
		for _, p := range problems {
			findings = append(findings, p.finding(r))
		}
	}
	Sort(findings)
	return findings, nil
}

func (p problem) finding(r Rule) Finding {
	at := p.at
	if at == nil {
		at = p.object.node
	}
	d := p.object.doc
	return Finding{
		Rule: r.ID, Severity: r.Severity, File: d.File, Line: d.LineOf(at), Column: at.Column,
		Object: p.object.String(), Message: p.message, Do: r.Do, Fixable: p.fix != nil, Fix: p.fix,
	}
}

// Sort orders findings by where they are, errors first where two are at the same place.
func Sort(findings []Finding) {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Rule, b.Rule))
	})
}
