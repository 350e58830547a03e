package rehearsal

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCluster_Rehearsal(t *testing.T) {
	client := adminClient(t)
	file := program(t)
	addNodes(t, client, 4, true, "run", "gone", "off", "error")
	addNodes(t, client, 2, false, "new", "renamed")
	addNodes(t, client, 2, true, "flaky")
	before := everything(t, client)
	c := newCloud(t, 20*time.Millisecond)
	var log bytes.Buffer
	o := c.options(t, file)
	o.Log = &log
	start := time.Now()
	report, err := Run(t.Context(), o)
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	t.Logf("22 Nodes took %s, and the cloud %d questions", time.Since(start).Round(100*time.Millisecond), c.asked.Load())
	want := map[string]Outcome{
		"run": Recognized, "new": Recognized, "gone": WouldBeDeleted, "off": SwitchedOff,
		"error": NotRecognized, "renamed": NotRecognized, "flaky": Recognized,
	}
	said := map[string]string{
		"error": "the cloud answers 402 Payment Required", "renamed": "the cloud has no such machine",
	}
	if len(report.Nodes) != 22 {
		t.Errorf("%d Nodes are in the report of 22", len(report.Nodes))
	}
	for _, v := range report.Nodes {
		kind, _, _ := strings.Cut(v.Node, "-")
		if v.Outcome != want[kind] || !strings.Contains(v.Message, said[kind]) {
			t.Errorf("%s is %s, want %s: %s", v.Node, v.Outcome, want[kind], v.Message)
		}
		recognized := v.Outcome == Recognized || v.Outcome == SwitchedOff
		facts := Facts{
			ProviderID: "example://" + v.Node, Zone: "z1", InstanceType: "metal",
			Addresses: []string{"InternalIP:192.0.2.1"},
		}
		if recognized && !cmp.Equal(v.After, &facts) {
			t.Errorf("%s: %s", v.Node, cmp.Diff(v.After, &facts))
		}
	}
	if diff := cmp.Diff(before, everything(t, client)); diff != "" {
		t.Errorf("the cluster has changed:\n%s", diff)
	}
	var table bytes.Buffer
	if err := report.WriteTable(&table, true); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", table.String())
	if t.Failed() {
		t.Logf("%s", log.String())
	}
}

// older refuses what a program of an older Kubernetes does, and runs another with the rest.
const older = `#!/bin/sh
for arg in "$@"; do
	case "$arg" in
	--concurrent-node-syncs=*) echo "Error: unknown flag: --concurrent-node-syncs" >&2; exit 1 ;;
	--controllers=*-controller) echo "Error: \"$arg\" is not in the list of known controllers" >&2; exit 1 ;;
	esac
done
exec %s "$@"
`

func TestCluster_OlderProgram(t *testing.T) {
	client := adminClient(t)
	addNodes(t, client, 1, true, "run", "gone")
	script := filepath.Join(t.TempDir(), "older")
	if err := os.WriteFile(script, fmt.Appendf(nil, older, program(t)), 0o700); err != nil {
		t.Fatal(err)
	}
	report, err := Run(t.Context(), newCloud(t, 0).options(t, script))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := report.Summary(), "1 Recognized, 1 WouldBeDeleted"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// BenchmarkCluster_Rehearsal is 1,000 Nodes, of which the cloud knows most, at 20 ms for each of its answers.
func BenchmarkCluster_Rehearsal(b *testing.B) {
	client := adminClient(b)
	file := program(b)
	addNodes(b, client, 750, true, "run")
	addNodes(b, client, 50, true, "error", "off")
	addNodes(b, client, 150, true, "gone")
	c := newCloud(b, 20*time.Millisecond)
	o := c.options(b, file)
	var log bytes.Buffer
	o.Log = &log
	const want = "750 Recognized, 50 SwitchedOff, 150 WouldBeDeleted, 50 NotRecognized"
	for b.Loop() {
		report, err := Run(b.Context(), o)
		if err != nil {
			b.Fatal(err)
		}
		if got := report.Summary(); got != want {
			b.Errorf("%s, want %s", got, want)
		}
	}
	b.ReportMetric(float64(c.asked.Load())/float64(b.N), "questions/op")
	if took := b.Elapsed() / time.Duration(b.N); took > 2*time.Minute {
		b.Errorf("it took %s, more than two minutes", took)
	}
}
