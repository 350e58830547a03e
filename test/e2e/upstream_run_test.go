package e2e

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

const (
	upstreamPatience = 150 * time.Minute
	upstreamReports  = "/root/reports"
	// upstreamAgain is how many failed tests get a second run, alone. A defect of the cluster has more victims. `make verify` counts
	// tests that pass only the second time, and has its own way to run them again.
	upstreamAgain = 10
)

// run runs a suite in the client's network, and fails for what fails and is not known to.
func (c *upstreamCluster) run(t *testing.T, s suite, level v1alpha1.Level) upstreamResult {
	t.Helper()
	r := s.result(level)
	var skip []string
	for _, leave := range s.leave {
		skip = append(skip, leave.tests)
	}
	if s.apart != "" {
		skip = append(skip, s.apart)
	}
	started := time.Now()
	o := readJUnit(t, c.ginkgo(t, s, r.file(), s.focus, strings.Join(skip, "|")))
	if again := o.unexplained(s.known[level]); len(again) > 0 && len(again) <= s.again {
		s.procs = 1
		o.second(readJUnit(t, c.ginkgo(t, s, r.file()+"-again", exactly(again), "")), again)
	}
	r.count(s, level, o)
	t.Logf("%s: %d tests, %d passed, %d failed, %d not run, in %s", r.which(), r.Tests, r.Passed, len(r.Failed), len(r.NotRun),
		time.Since(started).Round(time.Second))
	if r.Passed == 0 {
		t.Errorf("no test of %s passed: is %q the name of one?", s.name, s.focus)
	}
	for _, name := range o.unexplained(s.known[level]) {
		t.Errorf("%s: %s", name, o.failed[name])
	}
	if len(r.NotRun) > 0 {
		t.Errorf("%d tests did not run within %s, the first is %s", len(r.NotRun), upstreamPatience, r.NotRun[0])
	}
	return r
}

// exactly is a regular expression for these tests.
func exactly(names []string) string {
	var texts []string
	for _, name := range names {
		texts = append(texts, regexp.QuoteMeta(withoutLabels(name)))
	}
	return strings.Join(texts, "|")
}

// ginkgo runs tests, keeps their log in bin/measured, and returns the report.
func (c *upstreamCluster) ginkgo(t *testing.T, s suite, name, focus, skip string) string {
	t.Helper()
	const script = `rm -rf %[1]s; mkdir -p %[1]s; cd %[1]s; cat > run <<'END'
#!/bin/bash
exec ip netns exec client ginkgo run --no-color --procs=%[2]d --timeout=%[3]s --focus=%[4]s %[5]s --keep-going \
  --junit-report=report.xml --output-dir=%[1]s /usr/local/bin/%[6]s -- --kubeconfig=%[7]s %[8]s > %[1]s/log 2>&1
END
chmod 755 run; systemctl reset-failed suite 2>/dev/null
systemd-run --quiet --unit suite --setenv=HOME=/root --setenv=KUBECONFIG=%[7]s ./run`
	own := "--provider=skeleton --num-nodes=3"
	if s.program != "e2e.test" {
		own = ""
	}
	if skip != "" {
		skip = "--skip=" + quoted(skip)
	}
	c.must(t, upstreamClient, fmt.Sprintf(script, upstreamReports, s.procs, upstreamPatience, quoted(focus), skip, s.program,
		upstreamConfigOf, own))
	eventually(t, upstreamPatience+10*time.Minute, s.name+" ends", func() bool {
		time.Sleep(2 * time.Second)
		state := strings.TrimSpace(c.sh(t, upstreamClient, "systemctl is-active suite").out)
		return state != "active" && state != "activating"
	})
	log := c.sh(t, upstreamClient, "cat "+upstreamReports+"/log").out
	if err := os.WriteFile(measuredFile(t, "upstream-"+name+".log"), []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	report := c.sh(t, upstreamClient, "cat "+upstreamReports+"/report.xml")
	if report.code != 0 {
		lines := strings.Split(log, "\n")
		t.Fatalf("%s has no report:\n%s", s.name, strings.Join(lines[max(0, len(lines)-60):], "\n"))
	}
	return report.out
}

// quoted is one word of a shell.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// record runs a suite, and keeps the result for the page, also of a suite that does not come to its end.
func (c *upstreamCluster) record(t *testing.T, s suite, level v1alpha1.Level) {
	t.Helper()
	s.again = upstreamAgain
	r := s.result(level)
	r.CutOff = true
	defer func() { r.write(t) }()
	c.serve(t, level)
	r = c.run(t, s, level)
}

// unexplained are the names of tests that failed and are not known to.
func (o suiteOutcome) unexplained(known []reason) []string {
	var names []string
	for name := range o.failed {
		if because(known, name) == "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// second adds what a second run saw of tests that failed in the first one.
func (o *suiteOutcome) second(again suiteOutcome, names []string) {
	for _, name := range names {
		switch message, failed := again.failed[name]; {
		case failed:
			o.failed[name] = message
		case slices.Contains(again.passed, name):
			o.passed = append(o.passed, name)
			o.alone[name] = o.failed[name]
			delete(o.failed, name)
		}
	}
}
