package workflow

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
)

type failing struct{ before func() }

func (f failing) Run(context.Context, machine.Command) error {
	f.before()
	return errors.New("signal: interrupt")
}

// What kubeadm printed is the cause where it failed, and not where Ctrl-C ended it.
func TestStream_Hint(t *testing.T) {
	for _, tt := range []struct {
		name    string
		stopped bool
	}{{"kubeadm failed", false}, {"it was told to stop", true}} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			runner := failing{before: func() {
				if tt.stopped {
					cancel()
				}
			}}
			env := &Env{Streams: Streams{Out: io.Discard, Err: io.Discard}, Machine: &machine.Machine{Runner: runner}, seen: &seen{}}
			err := Stream(ctx, env, []string{"init"}, machine.Command{})
			var told *finding.Error
			if !errors.As(err, &told) || told.Error() != "run kubeadm init: signal: interrupt" || (told.Hint == "") != tt.stopped {
				t.Errorf("%#v", err)
			}
		})
	}
}

// After Ctrl-C the end is written into the journal, which takes a minute where the API server is away.
func TestSayStopped(t *testing.T) {
	var out bytes.Buffer
	env := &Env{Streams: Streams{Out: &out}, Phase: "kubeadm", seen: &seen{}}
	ctx, cancel := context.WithCancel(t.Context())
	sayStopped(ctx, env)
	if out.Len() > 0 {
		t.Errorf("while it runs it says %q", out.String())
	}
	cancel()
	sayStopped(ctx, env)
	if want := "[kubeadm] told to stop: the journal notes it first, and waits up to 1m0s for the API server\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
