package workflow

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

// Nothing is said of a wait for two seconds; then it tells what is left, and why, once in a while.
func TestWaiting(t *testing.T) {
	var out bytes.Buffer
	env := &Env{Streams: Streams{Out: &out}, Phase: "rollout"}
	w := env.Waiting("the manager", time.Minute)
	w.Still(errors.New("too early"))
	w.next = time.Now() // two seconds later
	w.Still(errors.New("not\nready"))
	w.Still(errors.New("too early again"))
	if got := out.String(); !strings.HasPrefix(got, "[rollout] waiting for the manager, ") || !strings.HasSuffix(got, " left, because not ready\n") || strings.Count(got, "\n") != 1 {
		t.Errorf("got %q", got)
	}
	out.Reset()
	w.next, w.end = time.Now(), time.Now()
	if w.Still(nil); out.Len() > 0 {
		t.Errorf("no time is left, and it says %q", out.String())
	}
}

// A quiet run counts what stays as it is, and says so in one line if nothing else was done.
func TestEnv_SayUnchanged(t *testing.T) {
	for _, tc := range []struct {
		name    string
		quiet   bool
		changes bool
		ran     bool
		same    int
		want    string
	}{
		{name: "not quiet", same: 2, want: "[rbac] a unchanged\n[rbac] a unchanged\n"},
		{name: "quiet", quiet: true, same: 2, want: "unchanged: 2 files and objects (--verbose lists them)\n"},
		{name: "one", quiet: true, same: 1, want: "unchanged: 1 file or object (--verbose lists them)\n"},
		{name: "none", quiet: true},
		{name: "something else was changed", quiet: true, changes: true, same: 2},
		{name: "kubeadm was run", quiet: true, ran: true, same: 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			env := &Env{Streams: Streams{Out: &out}, Phase: "rbac", Quiet: tc.quiet, seen: &seen{ran: tc.ran}}
			env.NoteChange(tc.changes)
			for range tc.same {
				env.SayUnchanged("a")
			}
			env.sayNothingChanged()
			if got := out.String(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
