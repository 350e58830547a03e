// Package lint finds the mistakes in manifests of a cloud-controller-manager that block the bootstrap of a cluster, and
// fixes those that have one right answer.
//
// Start at [Parse] and [Set.Check]; [Rules] is the list of all that is looked for, [Fix] fixes. What the fixed pods
// get comes from what ccmadm gives its own (package manifests).
//
// Reads: the manifests that it is given, and the built-in profiles. Writes: nothing; [File.Bytes] is the text with the
// fixes, in which everything else is as it was. A second [Fix] changes nothing. Kinds that it does not know are
// skipped, and no cluster is ever asked.
package lint

import (
	"github.com/ccmadm/ccmadm/api/finding"
)

// Check returns what is wrong, by file and line. The error is about objects that cannot be read; the findings are about
// all others.
func (s *Set) Check() ([]finding.Finding, error) {
	err := s.read()
	var findings []finding.Finding
	for _, d := range detectors() {
		var problems []problem
		if d.set != nil {
			problems = d.set(s)
		}
		for _, w := range s.workloads {
			if d.workload != nil {
				problems = append(problems, d.workload(w)...)
			}
		}
		kind := d.id.Kind()
		for _, p := range problems {
			findings = append(findings, p.finding(kind))
		}
	}
	finding.Sort(findings)
	return findings, err
}
