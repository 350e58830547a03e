package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/workflow"
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
			want: "interrupted: write it", hint: "the same command resumes",
		},
		{
			name: "one of its phases", args: "join phase wait",
			err:  finding.Error{Code: finding.ExitError, Err: fmt.Errorf("wait: %w", signalled)},
			want: "interrupted: wait", hint: "the same command resumes",
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
			want: "interrupted: list nodes", hint: "nothing was changed; ccmadm status shows the state of the nodes",
		},
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(signalled)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd, flags, err := newRoot(workflow.Streams{}).Find(strings.Fields(tt.args)) //nolint:contextcheck // none runs
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.ParseFlags(flags); err != nil {
				t.Fatal(err)
			}
			got := interrupted(ctx, cmd, &tt.err)
			if got.Error() != tt.want || got.Hint != tt.hint || got.Code != tt.err.Code {
				t.Errorf("got %d %q, hint %q; want %q, hint %q", got.Code, got, got.Hint, tt.want, tt.hint)
			}
		})
	}
}

// A server that does not answer is no late node, and a signal is no mistake of the command line.
func TestWait_HangingServer(t *testing.T) {
	server := apiServer(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	t.Setenv("KUBECONFIG", kubeconfig(t, "a", server))
	tests := []struct {
		name string
		end  time.Duration
		want string
	}{
		{name: "until the time is up", end: time.Hour, want: "reach the API server " + server.URL},
		{name: "until a signal", end: 500 * time.Millisecond, want: "interrupted: wait for nodes to be Addressed\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(tt.end, cancel)
			start := time.Now()
			code, _, errs := ccmadm(ctx, "wait", "--timeout", "2s")
			if code != 1 || !strings.Contains(errs, tt.want) {
				t.Errorf("exit status %d, want 1 and %q: %s", code, tt.want, errs)
			}
			if took := time.Since(start); took > 8*time.Second { // far below a request's own limit
				t.Errorf("took %s", took)
			}
		})
	}
}

// TestCommandLine: the journal's command line is what was called, for a shell, and without what is between machines.
func TestCommandLine(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"flags": {
			[]string{"adopt", "--credential", "token=/root/my token", "--credential=key=env:KEY", "--via", "pods", "--skip", "w1,w2"},
			"ccmadm adopt '--credential=token=/root/my token' --credential=key=env:KEY --skip=w1 --skip=w2 --via=pods",
		},
		"a comma in one value of a list": {
			[]string{"adopt", "--skip", `"w1,a",w2`, "--credential=k=/a,b"}, `ccmadm adopt --credential=k=/a,b '--skip="w1,a"' --skip=w2`,
		},
		"arguments":      {[]string{"upgrade", "apply", "v1.37.2", "--", "--etcd-upgrade=false"}, "ccmadm upgrade apply v1.37.2 -- --etcd-upgrade=false"},
		"hidden":         {[]string{"upgrade", "node", "--driven", "--image", "x:1"}, "ccmadm upgrade node --image=x:1"},
		"short for long": {[]string{"apply", "-f", "cloud.yaml"}, "ccmadm apply --filename=cloud.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			root, got := newRoot(workflow.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}), ""
			root.SetArgs(tt.args)
			cmd, _, err := root.Find(tt.args)
			check(t, err)
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				got = commandLine(cmd, args)
				return nil
			}
			check(t, root.ExecuteContext(t.Context()))
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestAgain: the flags that a plan repeats are written as those of the journal, and are read as what they were.
func TestAgain(t *testing.T) {
	var given, repeated fleet.Remote
	first, second := pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	for flags, r := range map[*pflag.FlagSet]*fleet.Remote{first: &given, second: &repeated} {
		declareWays(flags, r)
		declareSkip(flags, r)
	}
	check(t, first.Parse([]string{"--skip", `w1,"w2,x"`, "--node-image=x:1"}))
	words := again(first)
	if want := []string{"--node-image=x:1", "--skip=w1", `--skip="w2,x"`}; !slices.Equal(words, want) {
		t.Errorf("got %q, want %q", words, want)
	}
	check(t, second.Parse(words))
	if !slices.Equal(given.Skip, repeated.Skip) || repeated.Image != "x:1" {
		t.Errorf("got %+v, want %+v", repeated, given)
	}
}
