package lint

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// WriteText writes findings for people: where, what, and what to do. Compilers' form, which editors follow.
func WriteText(out io.Writer, findings []Finding) error {
	for _, f := range findings {
		fixable := ""
		if f.Fixable {
			fixable = " (--fix does it)"
		}
		if _, err := fmt.Fprintf(out, "%s:%d:%d: %s %s: %s: %s\n\tdo: %s%s\n", f.File, f.Line, f.Column, f.Severity, f.Rule, f.Object, f.Message, f.Do, fixable); err != nil {
			return err
		}
	}
	return nil
}

// WriteJSON writes findings for programs, as one list.
func WriteJSON(out io.Writer, findings []Finding) error {
	if findings == nil {
		findings = []Finding{}
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(findings)
}

// Reference is the page that lists the rules.
func Reference(rules []Rule) string {
	var b strings.Builder
	b.WriteString("# Rules of ccmadm lint\n\nAn error blocks the bootstrap of a cluster; a warning breaks something later, or elsewhere. IDs never change their meaning.\n")
	for _, r := range rules {
		fmt.Fprintf(&b, "\n## %s: %s\n\n%s. %s\n\nDo: %s.\n", r.ID, r.Title, strings.ToUpper(string(r.Severity[:1]))+string(r.Severity[1:]), r.Why, r.Do)
		for i, link := range r.Links {
			separator := ", "
			if i == 0 {
				separator = "\nUpstream: "
			}
			fmt.Fprintf(&b, "%s<%s>", separator, address(link))
		}
		if len(r.Links) > 0 {
			b.WriteString(".\n")
		}
	}
	return b.String()
}

// address is the page of owner/repository#number, or the link itself.
func address(link string) string {
	if repository, number, ok := strings.Cut(link, "#"); ok && !strings.HasPrefix(link, "https://") {
		return "https://github.com/" + repository + "/issues/" + number
	}
	return link
}
