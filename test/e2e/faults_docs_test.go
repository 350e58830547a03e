package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/api/finding"
)

// TestTables_FaultsAreWrittenDown: docs/contributing/faults.md has the rows of the tables, and says why of what was not found.
func TestTables_FaultsAreWrittenDown(t *testing.T) {
	data, err := os.ReadFile("../../docs/contributing/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	intro, err := os.ReadFile("faults.md")
	if err != nil {
		t.Fatal(err)
	}
	text, begins := strings.CutPrefix(string(data), string(intro))
	if !begins {
		t.Error("docs/contributing/faults.md does not begin with test/e2e/faults.md: `make faults` writes it")
	}
	written := map[string][]string{}
	cluster := ""
	for line := range strings.Lines(text) {
		if heading, is := strings.CutPrefix(line, "## "); is {
			cluster = strings.TrimSpace(heading)
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) < 6 || slices.Contains([]string{"ID", "One"}, strings.TrimSpace(cells[0])) {
			continue
		}
		written[cluster] = append(written[cluster], strings.TrimSpace(cells[0])+" "+cells[1])
		for _, c := range cells[2:] {
			if why, no := strings.CutPrefix(c, "NO"); no && len(strings.Trim(why, ": ")) < 10 {
				t.Errorf("%s: a NO without a reason: %s", cluster, line)
			}
		}
	}
	if diff := cmp.Diff(tables(), written); diff != "" {
		t.Errorf("docs/contributing/faults.md is not of these tables (-tables +docs); `make faults` writes it:\n%s", diff)
	}
}

// TestTables_FaultsAreOfTheCatalogue: each fault has an ID that there is, and a name of its own.
func TestTables_FaultsAreOfTheCatalogue(t *testing.T) {
	for cluster, rows := range tables() {
		for i, row := range rows {
			id, what, _ := strings.Cut(row, " ")
			if _, known := finding.Lookup(id); !known {
				t.Errorf("%s: there is no finding %s", cluster, id)
			}
			if slices.Contains(rows[:i], row) || what == "" {
				t.Errorf("%s: two faults are called %q", cluster, what)
			}
		}
	}
}

// tables are the library's faults by cluster, each as ID and words.
func tables() map[string][]string {
	rows := func(kinds ...[]injected) []string {
		var list []string
		for _, f := range slices.Concat(kinds...) {
			list = append(list, string(f.id)+" "+cell(f.what))
		}
		return list
	}
	return map[string][]string{
		objectCluster: rows(objectFaults()...), staticCluster: rows(staticFaults()...),
		daemonSetCluster: rows(daemonSetFaults()...), deploymentCluster: rows(deploymentFaults()),
		cloudCluster:    rows(openstackFaults(), cloudFaults(), cloudFaultsOfAnybody()),
		cloudSetCluster: rows(openstackFaults(), faultsOfVendorsPods("openstack")), awsCluster: rows(awsFaults()...),
		vsphereCluster: rows(faultsOfVendorsStaticPod("vsphere")), sampleCluster: rows(faultsOfVendorsStaticPod("sample")),
		inventoryCluster: rows(inventoryFaults()...), pairsCluster: rowsOfPairs(),
	}
}

func rowsOfPairs() []string {
	var list []string
	for _, p := range pairs() {
		a, knownA := faultCalled(p[0])
		b, knownB := faultCalled(p[1])
		if !knownA || !knownB || a.id == b.id || a.host != b.host {
			list = append(list, fmt.Sprintf("no pair: %q", p))
			continue
		}
		list = append(list, fmt.Sprintf("%s %s %s %s", a.id, cell(a.what), b.id, cell(b.what)))
	}
	return list
}
