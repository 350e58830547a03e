package rehearsal

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/table"
)

// WriteTable shows a report to people: a row per Node, what is wrong, and what else the program tried. A value that
// would change is shown as old -> new. A wide table has labels.
func (r *Report) WriteTable(out io.Writer, wide bool) error {
	header := []string{"NODE", "OUTCOME", "PROVIDER-ID", "INTERNAL-IP", "ZONE", "TYPE"}
	if wide {
		header = append(header, "LABELS")
	}
	w := table.New(out, header...)
	for _, v := range r.Nodes {
		w.Row(v.cells(wide)...)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("show nodes: %w", err)
	}
	found := r.findings()
	if err := finding.WriteText(out, found); err != nil {
		return fmt.Errorf("show findings: %w", err)
	}
	for _, what := range slices.Sorted(maps.Keys(r.Refused)) {
		fmt.Fprintf(out, "refused: %s, %s\n", finding.Clean(what), finding.Count(r.Refused[what], "time"))
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

func (v Verdict) cells(wide bool) []any {
	after := v.Before
	if v.After != nil {
		after = *v.After
	}
	cells := []any{
		v.Node, v.Outcome, differ(v.Before.ProviderID, after.ProviderID),
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
		cells = append(cells, strings.Join(labels, ","))
	}
	return cells
}

// differ is a value, or two.
func differ(before, after string) string {
	if before == after {
		return after
	}
	return table.OrDash(before) + " -> " + table.OrDash(after)
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
