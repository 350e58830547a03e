package finding

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// WriteText writes findings for people: where, what, and what to do. Compilers' form, which editors follow. What is not
// in a file starts with its severity.
func WriteText(out io.Writer, findings []Finding) error {
	for _, f := range findings {
		if _, err := io.WriteString(out, f.text()); err != nil {
			return err
		}
	}
	return nil
}

func (f *Finding) text() string {
	var b strings.Builder
	if f.File != "" {
		fmt.Fprintf(&b, "%s:%d:%d: ", f.File, f.Line, f.Column)
	}
	fmt.Fprintf(&b, "%s %s: ", f.Severity, f.ID)
	if f.Object != "" {
		b.WriteString(Clean(f.Object) + ": ")
	}
	b.WriteString(Clean(f.Message) + "\n")
	if f.Do != "" {
		b.WriteString("\tdo: " + f.Do)
		if f.Fixable() {
			b.WriteString(" (--fix does it)")
		}
		b.WriteString("\n")
	}
	if f.Next != "" {
		b.WriteString("\tnext: " + Clean(f.Next) + "\n")
	}
	return b.String()
}

// WriteJSON writes findings for programs, as one list.
func WriteJSON(out io.Writer, findings []Finding) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(Listed(findings))
}

// Entry is a finding as programs read it.
type Entry struct {
	// Rule is the ID under its older name.
	Rule ID `json:"rule"`
	Finding
	Fixable bool `json:"fixable"`
}

// Listed returns entries of findings, in their order.
func Listed(findings []Finding) []Entry {
	list := []Entry{}
	for _, f := range findings {
		list = append(list, Entry{Rule: f.ID, Finding: f, Fixable: f.Fixable()})
	}
	return list
}

// Explain writes all that the catalogue says of a kind.
func (k Kind) Explain(out io.Writer) error {
	name := string(k.ID)
	if k.Reason != "" {
		name += " " + k.Reason
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s): %s\n\nWhy: %s\nDo:  %s\n", name, k.severity(), k.Title, k.Why, k.Do)
	for _, link := range k.Links {
		b.WriteString("See: " + Address(link) + "\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// severity is that of all its findings, or the version from which on it is.
func (k Kind) severity() string {
	if k.Since == "" || k.Severity == SeverityNote {
		return string(k.Severity)
	}
	return fmt.Sprintf("%s from Kubernetes %s on, %s before", k.Severity, k.Since, SeverityNote)
}

// Reference is a page of documentation that lists kinds, below a head of its own.
func Reference(head string, kinds []Kind) string {
	var b strings.Builder
	b.WriteString(head)
	for _, k := range kinds {
		severity := k.severity()
		severity = strings.ToUpper(severity[:1]) + severity[1:]
		fmt.Fprintf(&b, "\n## %s: %s\n\n%s. %s\n\nDo: %s.\n", k.ID, k.Title, severity, k.Why, k.Do)
		for i, link := range k.Links {
			separator := ", "
			if i == 0 {
				separator = "\nUpstream: "
			}
			fmt.Fprintf(&b, "%s<%s>", separator, Address(link))
		}
		if len(k.Links) > 0 {
			b.WriteString(".\n")
		}
	}
	return b.String()
}

// Address is the page of owner/repository#number, or the link itself.
func Address(link string) string {
	if repository, number, ok := strings.Cut(link, "#"); ok && !strings.HasPrefix(link, "https://") {
		return "https://github.com/" + repository + "/issues/" + number
	}
	return link
}
