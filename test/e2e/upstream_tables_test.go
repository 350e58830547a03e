package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// upstreamReportExample is what Ginkgo writes of one run: tests beyond the focus are skipped without a message of their own.
const upstreamReportExample = `<testsuites><testsuite>
<testcase name="[SynchronizedBeforeSuite]" status="passed"></testcase>
<testcase name="[It] a [Conformance] [x, Conformance]" status="passed"></testcase>
<testcase name="[It] b [Conformance] [x, Conformance]" status="failed"><failure message="b is wrong&#xA;detail">in</failure></testcase>
<testcase name="[It] b2 [Conformance] [x, Conformance]" status="panicked"><error message="nil">stack</error></testcase>
<testcase name="[It] c [Conformance] [x, Conformance]" status="timedout"></testcase>
<testcase name="[It] d [Conformance] [x, Conformance]" status="skipped"><skipped message="skipped - needs two nodes"></skipped></testcase>
<testcase name="[It] beyond [x]" status="skipped"><skipped message="skipped"></skipped></testcase>
<testcase name="[It] left [Conformance] [x, Conformance]" status="skipped"><skipped message="skipped"></skipped></testcase>
<testcase name="[It] late [Conformance] [x, Conformance]" status="skipped"><skipped message="skipped"></skipped></testcase>
<testcase name="[It] one by one [Serial] [Conformance] [x, Conformance]" status="skipped"><skipped message="skipped"></skipped></testcase>
<testcase name="[ReportAfterSuite]" status="failed"><failure message="no end"></failure></testcase>
</testsuite></testsuites>`

// TestTablesUpstreamReport: every test in a suite's focus is passed, failed, skipped, left out, or did not run.
func TestTablesUpstreamReport(t *testing.T) {
	s := conformanceSuite()
	s.leave = []reason{{"^left", "a registry"}, {"^nothing", "of no test"}}
	s.known = map[v1alpha1.Level][]reason{v1alpha1.LevelL2: {{"^c ", "too slow here"}}}
	o := readJUnit(t, upstreamReportExample)
	unexplained := []string{"[ReportAfterSuite]", "b [Conformance] [x, Conformance]", "b2 [Conformance] [x, Conformance]"}
	if diff := cmp.Diff(unexplained, o.unexplained(s.known[v1alpha1.LevelL2])); diff != "" {
		t.Errorf("failed without a reason (-want +got):\n%s", diff)
	}
	o.second(readJUnit(t, `<testsuites><testsuite>
<testcase name="[It] b [Conformance] [x, Conformance]" status="passed"></testcase>
<testcase name="[It] b2 [Conformance] [x, Conformance]" status="failed"><failure message="again"></failure></testcase>
</testsuite></testsuites>`), unexplained)
	var got upstreamResult
	got.count(s, v1alpha1.LevelL2, o)
	want := upstreamResult{
		Tests: 8, Passed: 2,
		Alone: []upstreamTest{{"b [Conformance] [x, Conformance]", "b is wrong"}},
		Failed: []upstreamTest{
			{"[ReportAfterSuite]", "**not explained**: no end"},
			{"b2 [Conformance] [x, Conformance]", "**not explained**: again"},
			{"c [Conformance] [x, Conformance]", "too slow here"},
		},
		Skipped: []upstreamTest{{"d [Conformance] [x, Conformance]", "needs two nodes"}},
		LeftOut: []upstreamLeft{{"^left", "a registry", []string{"left [Conformance] [x, Conformance]"}}},
		NotRun:  []string{"late [Conformance] [x, Conformance]"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTablesUpstreamKnown: what is known to fail is the tests that it means, and no other.
func TestTablesUpstreamKnown(t *testing.T) {
	known := loadBalancers().known[v1alpha1.LevelL2]
	if because(known, "should be able to switch session affinity for LoadBalancer service with Local traffic policy") == "" {
		t.Error("the test that L2 cannot pass is not known")
	}
	for _, name := range []string{
		"should work for type=LoadBalancer",
		"should have session affinity work for LoadBalancer service with Local traffic policy",
	} {
		if why := because(known, name); why != "" {
			t.Errorf("%q has to pass, and is known to fail: %s", name, why)
		}
	}
	const name = "a test's (name) [Conformance] [sig-x, Conformance]"
	if got, want := exactly([]string{name}), `a test's \(name\) \[Conformance\]`; got != want {
		t.Errorf("a second run has the focus %s, want %s", got, want)
	}
	if got, want := quoted("a test's"), `'a test'\''s'`; got != want {
		t.Errorf("in a shell it is %s, want %s", got, want)
	}
}

// TestTablesUpstreamSums: the suites of conformance are added up, and a run that was cut off is no success.
func TestTablesUpstreamSums(t *testing.T) {
	got := renderUpstream("intro\n", []upstreamResult{
		{Suite: "kubeadm", Kubernetes: "1.36", Level: "L2", Proxy: "nftables", Date: "2026-01-01", CutOff: true},
		{Suite: "Conformance, Serial", Kubernetes: "1.36", Level: "L2", Proxy: "nftables", Tests: 2, Passed: 2},
		{
			Suite: "Conformance", Kubernetes: "1.36", Level: "L2", Proxy: "nftables", Tests: 4, Passed: 1,
			Failed: []upstreamTest{{"a | b [x]", "late"}}, NotRun: []string{"c"}, LeftOut: []upstreamLeft{{"^d", "a registry", []string{"d [x]"}}},
		},
	})
	for _, want := range []string{
		"* Conformance, Kubernetes 1.36, kube-proxy in mode nftables: 6 tests: " +
			"3 passed, 1 failed, 0 skipped by themselves, 1 left out, 1 not run.\n",
		"| Conformance | 1.36 | L2 | nftables | 4 | 1 | 1 | 0 | 1 | 1 |",
		"| kubeadm | 1.36 | L2 | nftables | ? | ? | ? | ? | ? | all: the run was cut off | 2026-01-01 |\n",
		`| Conformance, 1.36, L2, nftables | failed | a \| b | late |`,
		"| Conformance, 1.36, L2, nftables | left out | d | a registry |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q:\n%s", want, got)
		}
	}
}

// TestTablesUpstreamPage: the page shows the results that runs have left, and nothing else. -update writes it.
func TestTablesUpstreamPage(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(upstreamResults, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("results in %s: %v, error %v", upstreamResults, files, err)
	}
	var results []upstreamResult
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var r upstreamResult
		if err := json.Unmarshal(content, &r); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if got := r.file() + ".json"; got != filepath.Base(file) {
			t.Errorf("%s has the result of %s", file, got)
		}
		if sum := r.Passed + len(r.Failed) + len(r.Skipped) + r.leftOut() + len(r.NotRun); sum != r.Tests {
			t.Errorf("%s: %d tests, and an outcome of %d", file, r.Tests, sum)
		}
		results = append(results, r)
	}
	intro, err := os.ReadFile("upstream.md")
	if err != nil {
		t.Fatal(err)
	}
	want := renderUpstream(string(intro), results)
	if *update {
		if err := os.WriteFile(upstreamPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(upstreamPage)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s: go test ./test/e2e -run TestTablesUpstreamPage -update (-want +got):\n%s", upstreamPage, diff)
	}
}
