// Package finding is what is wrong and what to do about it, in one form for all who look: preflight checks, lint rules,
// causes of waiting, the provider's troubles, refusals of the deletion guard, and the doctor.
//
// Start at [Finding]. [Catalogue] lists the kinds that there are, by ID; a detector names the ID, and adds where it saw
// what ([ID.New], [ID.Errorf]). [WriteText] and [WriteJSON] show findings, [Clean] makes what others wrote safe to
// show. [Error] is a failure of a command, with its exit code and its hint.
//
// It reads and writes nothing but the streams that it is given.
package finding

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Severity says how bad a finding is. The words are those of SARIF's levels.
type Severity string

// The severities.
const (
	// SeverityError blocks the bootstrap of a cluster, or a node.
	SeverityError Severity = "error"
	// SeverityWarning breaks something later, or elsewhere.
	SeverityWarning Severity = "warning"
	// SeverityNote is nothing that is wrong: a version of Kubernetes to come ends it, or a Node that has just joined is on its way. No exit
	// status counts it.
	SeverityNote Severity = "note"
)

// Compare orders severities, the worst first: less than 0 where s is worse than other.
func (s Severity) Compare(other Severity) int {
	order := []Severity{SeverityError, SeverityWarning, SeverityNote}
	return cmp.Compare(slices.Index(order, s), slices.Index(order, other))
}

// ID names a kind of finding for ever: a letter for the area, and a number. It never changes its meaning.
type ID string

// Kind is what all findings of an ID have in common.
type Kind struct {
	// ID names it.
	ID ID `json:"id"`
	// Reason is one word for programs, in the form of an Event's reason. Empty for what only lint looks for.
	Reason string `json:"reason,omitempty"`
	// Title says in a few words what is wrong.
	Title string `json:"title,omitempty"`
	// Severity is that of its findings.
	Severity Severity `json:"severity,omitempty"`
	// Since is the minor version of Kubernetes, as 1.38, from which on it has that severity. Before it, it is a note. Empty:
	// all have it.
	Since string `json:"since,omitempty"`
	// Why says what happens because of it.
	Why string `json:"why,omitempty"`
	// Do says what to change.
	Do string `json:"do,omitempty"`
	// Safe says that `ccmadm doctor --fix` may do it: nothing is lost by it, and a second time it changes nothing.
	Safe bool `json:"safe,omitempty"`
	// Links are upstream's issues and sources, as owner/repository#number or a URL.
	Links []string `json:"links,omitempty"`
}

// Finding is one thing that is wrong in one place.
type Finding struct {
	// Kind is what it has in common with others of its ID.
	Kind
	// File, Line and Column say where in a text it is; Line and Column count from 1. Empty where it is not in a file.
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	// Object is the Kubernetes object, as Kind/namespace/name or Kind/name.
	Object string `json:"object,omitempty"`
	// Message is what was seen.
	Message string `json:"message"`
	// Next is the next command, or the next thing to look at.
	Next string `json:"next,omitempty"`
	// Fix changes the text that was looked at, in memory. Nil where only a person can know.
	Fix func() error `json:"-"`

	cause error
}

// New returns a finding about an object. The message is what was seen.
func (id ID) New(object, message string) Finding {
	return Finding{Kind: id.Kind(), Object: object, Message: message}
}

// Ahead returns a finding about what Kubernetes ends in the minor version of its kind (Since). Minor is that of the
// component which has it, as 37; 0 stands for one that is not known, and is taken for older. Before Since it is a note.
func (id ID) Ahead(minor int, object, seen string) Finding {
	f := id.New(object, seen+"; Kubernetes "+id.Kind().Since+" ends that")
	if since, err := strconv.Atoi(strings.TrimPrefix(f.Since, "1.")); err != nil || minor < since {
		f.Severity = SeverityNote
	}
	return f
}

// Errorf returns a finding that is an error as well, for code that has to return one. It wraps like fmt.Errorf.
func (id ID) Errorf(format string, args ...any) *Finding {
	err := fmt.Errorf(format, args...)
	return &Finding{Kind: id.Kind(), Message: err.Error(), cause: err}
}

// Error is the message.
func (f *Finding) Error() string { return f.Message }

// Unwrap returns what Errorf wrapped.
func (f *Finding) Unwrap() error { return f.cause }

// Fixable tells whether there is a Fix.
func (f *Finding) Fixable() bool { return f.Fix != nil }

// Sort orders findings by where they are, errors first where two are at the same place.
func Sort(findings []Finding) {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line),
			a.Severity.Compare(b.Severity), cmp.Compare(a.ID, b.ID),
		)
	})
}
