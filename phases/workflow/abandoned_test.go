package workflow

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/journal"
)

// A run that was stopped with Ctrl-C, or that waited in vain, is Failed, and has no end either.
func TestLeftOpen(t *testing.T) {
	run := func(command string, state journal.State) journal.Run {
		return journal.Run{Command: command, State: state}
	}
	open, done := run("rollback 1", journal.Begun), run("rollback 1", journal.Done)
	for _, tt := range []struct {
		name string
		runs []journal.Run
		want int // 0: none
	}{
		{"nothing", nil, 0},
		{"it has no end", []journal.Run{done, open}, 2},
		{"it has failed", []journal.Run{done, run("rollback 1", journal.Failed)}, 2},
		{"an apply has failed", []journal.Run{done, run("apply", journal.Failed)}, 2},
		{"it is done", []journal.Run{open, done}, 0},
		{"another rollback came after it", []journal.Run{open, run("rollback 2", journal.Begun)}, 0},
		{"runs came after it that change no settings", []journal.Run{
			run("rollback 1", journal.Failed), run("init", journal.Done), run("upgrade workers v1.36.3", journal.Failed),
		}, 1},
	} {
		for i := range tt.runs {
			tt.runs[i].ID = i + 1
		}
		got := 0
		if run := LeftOpen(tt.runs, "apply", "rollback 1"); run != nil {
			got = run.ID
		}
		if got != tt.want {
			t.Errorf("%s: got run %d, want %d", tt.name, got, tt.want)
		}
	}
}

// A plain apply after a failed `apply -f FILE` does not claim that the settings of the file are applied.
func TestSayClosed(t *testing.T) {
	const plain, withFile, missing = "ccmadm apply", "ccmadm apply -f new.yaml", "are not applied: repeat its command"
	const nothing = "run 5 of the journal was cut short or failed, and nothing was left to change: closed"
	for _, tt := range []struct {
		name, command, line, by string // of the run that is closed, and the line that closes it
		want, wantNot           string
	}{
		{"the same line", "apply", plain, plain, nothing, missing},
		{"another line", "apply", withFile, plain, "run 5 of the journal, " + withFile + ", was cut short or failed: closed", "nothing was left"},
		{"what to do", "apply", withFile, plain, "Settings that run 5 did not write into the record " + missing, "EXTRA"},
		{"no line is known", "apply", "", plain, "run 5 of the journal, ccmadm apply with the flags of that run, was", "nothing was left"},
		{"a rollback", "rollback 1", "ccmadm rollback 1", "ccmadm rollback 1 --yes", nothing, missing},
	} {
		var out bytes.Buffer
		r := NewRun(machine.At(t.TempDir()), Inputs{Line: tt.by}, Streams{Out: &out, Err: &out}, "test")
		SayClosed(r, &journal.Run{ID: 5, Command: tt.command, Line: tt.line})
		if got := out.String(); !strings.Contains(got, tt.want) || strings.Contains(got, tt.wantNot) {
			t.Errorf("%s: want %q, and not %q:\n%s", tt.name, tt.want, tt.wantNot, got)
		}
	}
}
