package e2e

import (
	"encoding/csv"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// ownName is who measures without saying anything else.
const ownName = "ccmadm"

// row is what a client saw of an event. Of whom it is, tells who.
type row struct {
	who, event, level string
	figures
}

// table is a file with a line for each event and client.
type table struct {
	path string
	file *os.File
	out  *csv.Writer
	// who is measured. Only ours has to be within the limits; of others they are written beside.
	who  string
	rows []row
}

func newTable(t *testing.T, name string) *table {
	t.Helper()
	path := measuredFile(t, name+"-"+time.Now().UTC().Format("20060102T150405")+".csv")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	tab := &table{path: path, file: file, out: csv.NewWriter(file), who: ownName}
	tab.write(t, "who", "proxy", "event", "level", "seconds", "lost", "refused", "tried", "last_lost_seconds",
		"arp_silent_seconds", "two_owners_seconds", "wanted_seconds", "megabytes")
	t.Cleanup(func() {
		tab.out.Flush()
		if err := file.Close(); err != nil {
			t.Error(err)
		}
		t.Logf("figures: %s", path)
	})
	return tab
}

func (tab *table) write(t *testing.T, fields ...string) {
	t.Helper()
	if err := tab.out.Write(fields); err != nil {
		t.Fatal(err)
	}
	tab.out.Flush()
}

// add writes a line. It complains about two owners, and about an outage that is over the limit, where they are ours.
func (tab *table) add(t *testing.T, event, level string, f figures, wanted, limit time.Duration) {
	t.Helper()
	tab.rows = append(tab.rows, row{tab.who, event, level, f})
	tab.write(t, tab.who, *proxyMode, event, level, seconds(f.outage), fmt.Sprint(f.lost), fmt.Sprint(f.refused),
		fmt.Sprint(f.tried), seconds(f.lastLost), seconds(f.silent), seconds(f.double), seconds(wanted),
		strconv.FormatFloat(f.megabytes, 'f', 0, 64))
	t.Logf("%-10s %-32s %-4s %6.3f s, wanted %5.3f; lost %d of %d, %d refused, the last after %.3f s; "+
		"ARP silent %.3f s, two owners %.3f s %s",
		tab.who, event, level, f.outage.Seconds(), wanted.Seconds(), f.lost, f.tried, f.refused, f.lastLost.Seconds(),
		f.silent.Seconds(), f.double.Seconds(), f.why)
	if tab.who != ownName {
		return
	}
	if f.double > 0 {
		t.Errorf("%s: two machines claimed the address for %s", event, f.double)
	}
	if f.outage > limit {
		t.Errorf("%s, %s: %s, which is more than %s", event, level, f.outage, limit)
	}
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }

// compare prints what others made of each event beside what ours did.
func (tab *table) compare(t *testing.T) {
	t.Helper()
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	const columns = "s\tlost\tlast lost s\ttwo owners s\t"
	fmt.Fprintln(w, "event\tlevel\tccmadm "+columns+"who\t"+columns+"times ccmadm's")
	for _, other := range tab.rows {
		for _, own := range tab.rows {
			if own.who == ownName && other.who != ownName && own.event == other.event && own.level == other.level {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", own.event, own.level, own.columns(), other.who, other.columns(),
					ratio(other.outage, own.outage))
			}
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("kube-proxy in mode %s\n%s", *proxyMode, text.String())
}

func (r row) columns() string {
	lost := fmt.Sprintf("%d of %d", r.lost, r.tried)
	switch {
	case r.megabytes > 0:
		lost = fmt.Sprintf("%.0f MB", r.megabytes)
	case r.tried == 0:
		lost = "-"
	}
	return strings.Join([]string{seconds(r.outage), lost, seconds(r.lastLost), seconds(r.double)}, "\t")
}

// ratio says nothing where one of them is no more than what a busy machine adds.
func ratio(a, b time.Duration) string {
	if min(a, b) < usualPause {
		return "-"
	}
	return strconv.FormatFloat(a.Seconds()/b.Seconds(), 'f', 1, 64)
}
