package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/phases/journal"
)

// The command that resumes names the run: without a number, another change may be the newest by then.
func TestRollback_Resumable(t *testing.T) {
	r := rollbacker{line: func(run int) string { return fmt.Sprintf("ccmadm rollback %d --yes=true", run) }}
	const resumes = "`ccmadm rollback 5 --yes=true` resumes"
	for _, tt := range []struct {
		name string
		err  error
		code finding.ExitCode
		want string
	}{
		{"an error without a hint", errors.New("connection refused"), finding.ExitError, resumes},
		{"not in time", &finding.Error{Code: finding.ExitNotInTime, Err: errors.New("late")}, finding.ExitNotInTime, resumes},
		{"a hint of its own", finding.Errorf("conflict").WithHint("--force"), finding.ExitError, "--force"},
		{"nothing was changed", finding.Preflightf("check"), finding.ExitPreflight, ""},
	} {
		err := exitOf(t, r.resumable(&journal.Run{ID: 5}, tt.err))
		if err.Code != tt.code || err.Hint != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: got %d %v, hint %q, want %d with %q", tt.name, err.Code, err, err.Hint, tt.code, tt.want)
		}
	}
	if err := r.resumable(&journal.Run{ID: 5}, nil); err != nil {
		t.Errorf("without an error: %v", err)
	}
}

func exitOf(t *testing.T, err error) *finding.Error {
	t.Helper()
	known := new(finding.Error)
	if !errors.As(err, &known) {
		t.Fatalf("%v has no exit status", err)
	}
	return known
}
