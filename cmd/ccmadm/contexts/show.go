package contexts

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/table"
)

// unknown is a cell of what could not be read. A dash is what does not exist.
const unknown = "?"

func header(wide bool) []string {
	list := []string{
		"CONTEXT", "KUBERNETES", "CCMADM", "PROVIDER", "LEADER", "READY", "NOT-INITIALIZED", "FIRST-CERTIFICATE", "FINDINGS",
	}
	if wide {
		list = append(list, "MODE", "KUBELETS", "CERTIFICATE", "SERVER", "SECONDS")
	}
	return append(list, "STATUS")
}

// WriteTable writes a table, with more columns where it is wide.
func WriteTable(out io.Writer, rows []Row, wide bool) error {
	t := table.New(out, header(wide)...)
	for _, r := range rows {
		var cells []any
		for _, cell := range r.cells(wide) {
			cells = append(cells, cell)
		}
		t.Row(cells...)
	}
	return t.Flush()
}

// cells are those of a row, in the order of [header].
func (r *Row) cells(wide bool) []string {
	version, provider, mode := r.recordCells()
	ready, waiting, kubelets := r.nodeCells()
	ends, certificate := "", ""
	switch {
	case r.Certificate != nil:
		ends, certificate = r.Certificate.Ends.Format(time.DateOnly), r.Certificate.Name
	case r.blind():
		ends, certificate = unknown, unknown
	}
	list := []string{
		r.Context, r.cell(partVersion, strings.Join(r.Versions, ",")), version, provider,
		r.cell(partLeader, r.Leader), ready, waiting, ends, r.findingsCell(),
	}
	if wide {
		list = append(list, mode, kubelets, certificate, r.Server, strconv.FormatFloat(r.Seconds, 'f', 2, 64))
	}
	return append(list, r.status())
}

// blind tells whether nothing at all is known of the cluster.
func (r *Row) blind() bool { return r.Unasked != nil && len(r.Versions) == 0 && r.Certificate == nil }

// cell is the text of a part, [unknown] where it could not be read.
func (r *Row) cell(part, text string) string {
	_, notSeen := r.NotSeen[part]
	if text == "" && (notSeen || r.Unasked != nil) {
		return unknown
	}
	return text
}

func (r *Row) recordCells() (version, provider, mode string) {
	switch {
	case r.Record != nil:
		return r.Record.WrittenBy, r.Record.Provider, r.Record.Mode
	case r.NotSeen[partRecord] != "" || r.blind():
		return unknown, unknown, unknown
	}
	return "none", "none", "none"
}

func (r *Row) nodeCells() (ready, waiting, kubelets string) {
	if r.Nodes == nil {
		return unknown, unknown, unknown
	}
	n := r.Nodes
	return fmt.Sprintf("%d/%d", n.Ready, n.Total), strconv.Itoa(n.NotInitialized), strings.Join(n.Kubelets, ",")
}

// findingsCell has errors and warnings, and a mark where the doctor could not read everything.
func (r *Row) findingsCell() string {
	if r.Findings == nil {
		return r.cell(partFindings, "")
	}
	text := fmt.Sprintf("%d/%d", r.Findings.Errors, r.Findings.Warnings)
	if r.Findings.NotSeen > 0 {
		text += "+" + unknown
	}
	return text
}

// status says how the cluster is, and what could not be read.
func (r *Row) status() string {
	var list []string
	switch {
	case r.Unasked != nil:
		list = append(list, fmt.Sprintf("cannot be asked: %s: %s", r.Unasked.Reason, r.Unasked.Message))
	case len(r.Wrong) > 0:
		text := "not ready: " + r.Wrong[0]
		if more := len(r.Wrong) - 1; more > 0 {
			text += fmt.Sprintf(" (and %d more)", more)
		}
		list = append(list, text)
	default:
		list = append(list, "ready")
	}
	for _, part := range slices.Sorted(maps.Keys(r.NotSeen)) {
		list = append(list, part+" not seen: "+r.NotSeen[part])
	}
	if f := r.Findings; f != nil && f.NotSeen > 0 {
		list = append(list, "the doctor has not seen "+finding.Count(f.NotSeen, "part"))
	}
	return strings.Join(list, "; ")
}
