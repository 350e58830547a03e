package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

const (
	upstreamResults = "testdata/upstream"
	upstreamPage    = "../../docs/contributing/upstream-tests.md"
)

// upstreamResult is what the last run of a suite saw, in a file of upstreamResults.
type upstreamResult struct {
	Suite      string         `json:"suite"`
	Kubernetes string         `json:"kubernetes"`
	Level      v1alpha1.Level `json:"level"`
	Proxy      string         `json:"proxy"`
	Date       string         `json:"date"`
	CutOff     bool           `json:"cutOff,omitempty"` // the run did not come to its end
	Tests      int            `json:"tests"`
	Passed     int            `json:"passed"`
	Alone      []upstreamTest `json:"alone,omitempty"` // of those passed: failed beside others, passed alone
	Failed     []upstreamTest `json:"failed,omitempty"`
	Skipped    []upstreamTest `json:"skipped,omitempty"`
	LeftOut    []upstreamLeft `json:"leftOut,omitempty"`
	NotRun     []string       `json:"notRun,omitempty"`
}

type upstreamTest struct {
	Test string `json:"test"`
	Why  string `json:"why"`
}

type upstreamLeft struct {
	Pattern string   `json:"pattern"`
	Why     string   `json:"why"`
	Tests   []string `json:"tests"`
}

// result is that of a suite of which nothing is known yet.
func (s suite) result(level v1alpha1.Level) upstreamResult {
	return upstreamResult{
		Suite: s.name, Kubernetes: *kubernetesMinor, Level: level, Proxy: *proxyMode, Date: time.Now().UTC().Format(time.DateOnly),
	}
}

func (r upstreamResult) file() string {
	name := fmt.Sprintf("%s-%s-%s-%s", r.Kubernetes, r.Proxy, r.Level, r.Suite)
	return strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), ",", "")
}

func (r upstreamResult) which() string {
	return fmt.Sprintf("%s, %s, %s, %s", r.Suite, r.Kubernetes, r.Level, r.Proxy)
}

// count adds what became of every test in the focus of the suite.
func (r *upstreamResult) count(s suite, level v1alpha1.Level, o suiteOutcome) {
	r.Passed = len(o.passed)
	for name, message := range o.failed {
		r.Failed = append(r.Failed, upstreamTest{name, cmp.Or(because(s.known[level], name), "**not explained**: "+firstLine(message))})
	}
	for name, message := range o.alone {
		r.Alone = append(r.Alone, upstreamTest{name, firstLine(message)})
	}
	for name, message := range o.skipped {
		r.Skipped = append(r.Skipped, upstreamTest{name, firstLine(message)})
	}
	for _, tests := range [][]upstreamTest{r.Failed, r.Alone, r.Skipped} {
		slices.SortFunc(tests, func(a, b upstreamTest) int { return cmp.Compare(a.Test, b.Test) })
	}
	left := map[reason][]string{}
	focus := regexp.MustCompile(s.focus)
	for _, name := range o.idle {
		text := withoutLabels(name)
		if !focus.MatchString(text) || s.apart != "" && regexp.MustCompile(s.apart).MatchString(text) {
			continue
		}
		i := slices.IndexFunc(s.leave, func(l reason) bool { return regexp.MustCompile(l.tests).MatchString(text) })
		if i < 0 {
			r.NotRun = append(r.NotRun, name)
			continue
		}
		left[s.leave[i]] = append(left[s.leave[i]], name)
	}
	r.Tests = r.Passed + len(r.Failed) + len(r.Skipped) + len(r.NotRun)
	for _, l := range s.leave {
		if tests := left[l]; len(tests) > 0 {
			slices.Sort(tests)
			r.LeftOut = append(r.LeftOut, upstreamLeft{l.tests, l.why, tests})
			r.Tests += len(tests)
		}
	}
}

func (r upstreamResult) leftOut() (n int) {
	for _, l := range r.LeftOut {
		n += len(l.Tests)
	}
	return n
}

func (r upstreamResult) write(t *testing.T) {
	t.Helper()
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(upstreamResults, r.file()+".json"), content.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// firstLine fits into a cell of the page.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// renderUpstream writes docs/contributing/upstream-tests.md.
func renderUpstream(intro string, results []upstreamResult) string {
	slices.SortFunc(results, func(a, b upstreamResult) int {
		return cmp.Or(cmp.Compare(a.Suite, b.Suite), cmp.Compare(a.file(), b.file()))
	})
	b := strings.Builder{}
	b.WriteString(intro + "\n## Result\n\n" + sums(results) +
		"| Suite | Kubernetes | Level | kube-proxy | Tests | Passed | Failed | Skipped by itself | Left out | Not run | Date |\n" +
		"|---|---|---|---|---|---|---|---|---|---|---|\n")
	details := map[string]bool{}
	for _, r := range results {
		where := fmt.Sprintf("| %s | %s | %s | %s |", r.Suite, r.Kubernetes, r.Level, r.Proxy)
		if r.CutOff {
			fmt.Fprintf(&b, "%s ? | ? | ? | ? | ? | all: the run was cut off | %s |\n", where, r.Date)
			continue
		}
		fmt.Fprintf(&b, "%s %d | %d | %d | %d | %d | %d | %s |\n",
			where, r.Tests, r.Passed, len(r.Failed), len(r.Skipped), r.leftOut(), len(r.NotRun), r.Date)
		for outcome, tests := range map[string][]upstreamTest{
			"failed": r.Failed, "failed beside others, passed alone": r.Alone, "skipped by itself": r.Skipped,
		} {
			for _, test := range tests {
				details[fmt.Sprintf("| %s | %s | %s | %s |\n", r.which(), outcome, cell(withoutLabels(test.Test)), cell(test.Why))] = true
			}
		}
		for _, l := range r.LeftOut {
			which := fmt.Sprintf("%d tests: `%s`", len(l.Tests), cell(l.Pattern))
			if len(l.Tests) <= 3 {
				which = ""
				for _, name := range l.Tests {
					which += cell(withoutLabels(name)) + "<br>"
				}
			}
			details[fmt.Sprintf("| %s | left out | %s | %s |\n", r.which(), strings.TrimSuffix(which, "<br>"), cell(l.Why))] = true
		}
	}
	b.WriteString("\n## Failed, skipped, left out\n\n| Suite | Outcome | Tests | Why |\n|---|---|---|---|\n")
	b.WriteString(strings.Join(slices.Sorted(maps.Keys(details)), ""))
	return b.String()
}

// sums adds up the suites that conformance is divided into.
func sums(results []upstreamResult) string {
	type sum struct{ tests, passed, failed, skipped, left, idle int }
	all, cut := map[string]sum{}, map[string]bool{}
	for _, r := range results {
		if !strings.HasPrefix(r.Suite, "Conformance") {
			continue
		}
		where := fmt.Sprintf("Kubernetes %s, kube-proxy in mode %s", r.Kubernetes, r.Proxy)
		s := all[where]
		all[where] = sum{
			s.tests + r.Tests, s.passed + r.Passed, s.failed + len(r.Failed), s.skipped + len(r.Skipped), s.left + r.leftOut(),
			s.idle + len(r.NotRun),
		}
		cut[where] = cut[where] || r.CutOff
	}
	b := strings.Builder{}
	for _, where := range slices.Sorted(maps.Keys(all)) {
		s := all[where]
		fmt.Fprintf(&b, "* Conformance, %s: %d tests: %d passed, %d failed, %d skipped by themselves, %d left out, %d not run",
			where, s.tests, s.passed, s.failed, s.skipped, s.left, s.idle)
		if cut[where] {
			b.WriteString(". One run was cut off, its tests are not among them")
		}
		b.WriteString(".\n")
	}
	if b.Len() > 0 {
		b.WriteString("\n")
	}
	return b.String()
}
