package lbtest

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/table"
)

// Verdict is how a check ended.
type Verdict string

// Verdicts. A check that could not be done, because the API server did not answer, has the verdict Error: nothing is known then of the
// load balancer.
const (
	Pass  Verdict = "pass"
	Fail  Verdict = "fail"
	Skip  Verdict = "skip"
	Error Verdict = "error"
)

// Result is one check.
type Result struct {
	Name string `json:"name"`
	// Asked is the property that was tested.
	Asked  string  `json:"asked"`
	Result Verdict `json:"result"`
	// Reason is why it did not pass.
	Reason string `json:"reason,omitempty"`
	// Notes say more of a check with any verdict.
	Notes   []string `json:"notes,omitempty"`
	Seconds float64  `json:"seconds"`
	// Lost counts requests without an answer after the address had answered the same client.
	Lost int `json:"lostRequests"`
}

// Report is one run.
type Report struct {
	// Run is the ID that is the value of the label of all that the run made.
	Run       string    `json:"run"`
	Namespace string    `json:"namespace"`
	Started   time.Time `json:"started"`
	Seconds   float64   `json:"seconds"`
	// Implementation serves the load balancers, if it was recognized.
	Implementation string `json:"implementation,omitempty"`
	// Nodes are those with a client pod, Machine the Node that is the machine of the clients outside, if it is one.
	Nodes   []string `json:"nodes"`
	Machine string   `json:"machine,omitempty"`
	// Retries counts requests to the API server that were sent again, because it was overloaded or did not answer.
	Retries int      `json:"apiRetries"`
	Checks  []Result `json:"checks"`
}

// failure is a check that failed, omission one that was left out.
type (
	failure  struct{ error }
	omission struct{ error }
)

func failf(format string, args ...any) error { return failure{fmt.Errorf(format, args...)} }
func skipf(format string, args ...any) error { return omission{fmt.Errorf(format, args...)} }

func judge(err error) (Verdict, string) {
	var failed failure
	var left omission
	switch {
	case err == nil:
		return Pass, ""
	case errors.As(err, &failed):
		return Fail, finding.Clean(err.Error())
	case errors.As(err, &left):
		return Skip, finding.Clean(err.Error())
	}
	return Error, finding.Clean(err.Error())
}

func (r *Result) line() string {
	text := fmt.Sprintf("%s %s, %.1f s", r.Result, r.Name, r.Seconds)
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	return text
}

// Count is how many checks have a verdict.
func (r *Report) Count(v Verdict) int { return len(r.named(v)) }

func (r *Report) named(v Verdict) (names []string) {
	for _, c := range r.Checks {
		if c.Result == v {
			names = append(names, c.Name)
		}
	}
	return names
}

// Judge is the error of a run in which a check failed, or could not be done, or none was.
func (r *Report) Judge() error {
	if names := r.named(Fail); len(names) > 0 {
		return &finding.Error{Code: finding.ExitFound, Err: fmt.Errorf("failed: %s", strings.Join(names, ", "))}
	}
	if names := r.named(Error); len(names) > 0 {
		return finding.Errorf("could not be checked: %s", strings.Join(names, ", ")).
			WithHint("REASON says what was in the way; run the same command again without it")
	}
	if len(r.named(Pass)) == 0 {
		return finding.Errorf("no check was done: all were skipped").WithHint("REASON says why; --run and --skip choose others")
	}
	return nil
}

// WriteTable writes the report for people.
func (r *Report) WriteTable(out io.Writer) error {
	t := table.New(out, "CHECK", "RESULT", "SECONDS", "LOST", "REASON")
	for _, c := range r.Checks {
		t.Row(c.Name, c.Result, fmt.Sprintf("%.1f", c.Seconds), c.Lost, strings.Join(append(nonEmpty(c.Reason), c.Notes...), "; "))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	text := fmt.Sprintf("%d passed, %d failed, %d skipped", r.Count(Pass), r.Count(Fail), r.Count(Skip))
	if n := r.Count(Error); n > 0 {
		text += fmt.Sprintf(", %d could not be checked", n)
	}
	if r.Implementation != "" {
		text += "; load balancers: " + r.Implementation
	}
	if r.Retries > 0 {
		text += fmt.Sprintf("; %s to the API server sent again", finding.Count(r.Retries, "request"))
	}
	_, err := fmt.Fprintln(out, text)
	return err
}

func nonEmpty(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}
