package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/phases"
)

func TestInterrupted(t *testing.T) {
	signalled := errors.New("interrupt signal received")
	tests := []struct {
		name, args string
		err        finding.Error
		want, hint string
	}{
		{
			name: "a command that goes on", args: "init --config x.yaml",
			err:  finding.Error{Code: finding.ExitError, Err: fmt.Errorf("write it: %w", context.Canceled)},
			want: "interrupted: write it", hint: "the same command goes on from here",
		},
		{
			name: "one of its phases", args: "join phase wait",
			err:  finding.Error{Code: finding.ExitError, Err: fmt.Errorf("wait: %w", signalled)},
			want: "interrupted: wait", hint: "the same command goes on from here",
		},
		{
			name: "what knows more about going on", args: "adopt",
			err:  finding.Error{Code: finding.ExitError, Err: context.Canceled, Hint: "node w1 has its taint"},
			want: "interrupted", hint: "node w1 has its taint",
		},
		{
			name: "a trial", args: "upgrade apply --dry-run",
			err:  finding.Error{Code: finding.ExitError, Err: context.Canceled},
			want: "interrupted",
		},
		{
			name: "what only looks", args: "upgrade plan",
			err:  finding.Error{Code: finding.ExitPreflight, Err: fmt.Errorf("look: %w", context.Canceled)},
			want: "interrupted: look",
		},
		{
			name: "what waits", args: "wait",
			err:  finding.Error{Code: finding.ExitError, Err: fmt.Errorf("list nodes: %w", context.Canceled)},
			want: "interrupted: list nodes", hint: "nothing was changed; ccmadm status shows how far the nodes are",
		},
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(signalled)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd, flags, err := newRoot(phases.Streams{}).Find(strings.Fields(tt.args))
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.ParseFlags(flags); err != nil {
				t.Fatal(err)
			}
			got := interrupted(ctx, cmd, &tt.err)
			if got.Error() != tt.want || got.Hint != tt.hint || got.Code != tt.err.Code {
				t.Errorf("got %d %q, hint %q; want %d %q, hint %q", got.Code, got, got.Hint, tt.err.Code, tt.want, tt.hint)
			}
		})
	}
}
