package workflow

import (
	"testing"

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
