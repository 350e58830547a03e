package rehearsal

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
)

// WriteTable shows a report to people: a row per Node, what is wrong, and what else the program tried. A value that
// would change is shown as old -> new. A wide table has labels.
func (r *Report) WriteTable(out io.Writer, wide bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	head := "NODE\tOUTCOME\tPROVIDER-ID\tINTERNAL-IP\tZONE\tTYPE"
	if wide {
		head += "\tLABELS"
	}
	fmt.Fprintln(w, head)
	for _, v := range r.Nodes {
		fmt.Fprintln(w, strings.Join(v.cells(wide), "\t"))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("show nodes: %w", err)
	}
	found := r.findings()
	if err := finding.WriteText(out, found); err != nil {
		return fmt.Errorf("show findings: %w", err)
	}
	for _, what := range slices.Sorted(maps.Keys(r.Refused)) {
		fmt.Fprintf(out, "refused: %s, %d times\n", finding.Clean(what), r.Refused[what])
	}
	_, err := fmt.Fprintln(out, r.Summary())
	return err
}

// findings are by kind, each with its advice once, at its end: a wrong region makes one of every Node.
func (r *Report) findings() []finding.Finding {
	var list []finding.Finding
	for _, v := range r.Nodes {
		if v.Finding != nil {
			list = append(list, *v.Finding)
		}
	}
	slices.SortStableFunc(list, func(a, b finding.Finding) int { return cmp.Compare(a.ID, b.ID) })
	for i := range list[:max(0, len(list)-1)] {
		if list[i].ID == list[i+1].ID {
			list[i].Do = ""
		}
	}
	return list
}

func (v Verdict) cells(wide bool) []string {
	after := v.Before
	if v.After != nil {
		after = *v.After
	}
	cells := []string{
		v.Node, string(v.Outcome), differ(v.Before.ProviderID, after.ProviderID),
		differ(internal(v.Before.Addresses), internal(after.Addresses)), differ(v.Before.Zone, after.Zone),
		differ(v.Before.InstanceType, after.InstanceType),
	}
	if wide {
		var labels []string
		for _, key := range slices.Sorted(maps.Keys(v.Labels)) {
			labels = append(labels, "+"+key+"="+v.Labels[key])
		}
		for _, key := range v.RemovedLabels {
			labels = append(labels, "-"+key)
		}
		cells = append(cells, orDash(strings.Join(labels, ",")))
	}
	return cells
}

// differ is a value, or two.
func differ(before, after string) string {
	if before == after {
		return orDash(after)
	}
	return orDash(before) + " -> " + orDash(after)
}

// internal are the addresses that a cluster works with.
func internal(addresses []string) string {
	var list []string
	for _, a := range addresses {
		if ip, ok := strings.CutPrefix(a, string(corev1.NodeInternalIP)+":"); ok {
			list = append(list, ip)
		}
	}
	return strings.Join(list, ",")
}

func orDash(text string) string { return cmp.Or(finding.Clean(text), "-") }
