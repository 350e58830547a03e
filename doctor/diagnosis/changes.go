package diagnosis

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
)

// Changes are lines about what is other than before: what was found, what is gone, and what is not seen any more. None:
// nothing has changed. A nil before is one in which nothing was seen.
func (d *Diagnosis) Changes(before *Diagnosis) []string {
	if before == nil {
		before = &Diagnosis{}
	}
	var lines []string
	if d.Summary != before.Summary {
		lines = append(lines, d.Summary)
	}
	was, is := before.byID(), d.byID()
	for _, id := range d.order() {
		if added := lacking(is[id], was[id]); len(added) > 0 {
			lines = append(lines, "+ "+d.line(id, added))
			if next := d.next(id); next != "" {
				lines = append(lines, "    next: "+next)
			}
		}
	}
	unseen, known := notSeenLines(d), notSeenLines(before)
	sign := "- "
	if slices.ContainsFunc(slices.Collect(maps.Keys(unseen)), func(line string) bool { return !known[line] }) {
		sign = "? not found any more, with less seen: "
	}
	for _, id := range before.order() {
		if gone := lacking(was[id], is[id]); len(gone) > 0 {
			lines = append(lines, sign+before.line(id, gone))
		}
	}
	for _, line := range slices.Sorted(maps.Keys(unseen)) {
		if !known[line] {
			lines = append(lines, "not seen: "+line)
		}
	}
	for _, line := range slices.Sorted(maps.Keys(known)) {
		if !unseen[line] {
			lines = append(lines, "seen again: "+line)
		}
	}
	if !d.Wrong() && before.Wrong() {
		lines = append(lines, "nothing is wrong"+d.asFarAsSeen())
	}
	return lines
}

// byID are the objects of each ID.
func (d *Diagnosis) byID() map[finding.ID][]string {
	m := map[finding.ID][]string{}
	for _, f := range d.Findings() {
		m[f.ID] = append(m[f.ID], f.Object)
	}
	return m
}

// order is that of the findings, each ID once.
func (d *Diagnosis) order() []finding.ID {
	var list []finding.ID
	for _, f := range d.Findings() {
		if !slices.Contains(list, f.ID) {
			list = append(list, f.ID)
		}
	}
	return list
}

func (d *Diagnosis) line(id finding.ID, objects []string) string {
	word := "hence"
	for _, c := range d.Causes {
		if c.ID == id {
			word = string(c.Severity)
		}
	}
	return fmt.Sprintf("%s %s %s: %s", word, id, id.Kind().Title, join(objects))
}

// next is what to do about a cause; of a consequence there is nothing to be done.
func (d *Diagnosis) next(id finding.ID) string {
	for _, c := range d.Causes {
		if c.ID == id {
			return c.Next
		}
	}
	return ""
}

func lacking(list, known []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(known, s) })
}

func notSeenLines(d *Diagnosis) map[string]bool {
	m := map[string]bool{}
	for _, n := range d.NotSeen {
		m[finding.Clean(strings.TrimSpace(n.What))] = true
	}
	return m
}
