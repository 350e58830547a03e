package rollback

import (
	"fmt"
	"testing"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// Without a number, rollback goes to before the newest run that has changed settings: after it `ccmadm apply` ran on
// the other control planes, too, and each of these runs has found the settings as they are now.
func TestNewestChange(t *testing.T) {
	record := func(image string) *state.Record {
		rec := &state.Record{Configuration: config.CloudConfiguration{
			Provider: "hetzner", Mode: config.ModeStaticPod,
			ControllerManager: config.ControllerManager{Image: image},
		}}
		rec.APIVersion, rec.Kind = v1alpha1.APIVersion, state.RecordKind
		return rec
	}
	run := func(before string, state journal.State) journal.Run {
		r := journal.Run{Command: "apply", State: state}
		if before == "" {
			r.Command = "adopt"
			return r
		}
		data, err := record(before).Encode()
		if err != nil {
			t.Fatal(err)
		}
		r.Before = string(data)
		return r
	}
	done, cut := journal.Done, journal.Begun
	repair := run("a:2", cut)
	repair.Command = "init"
	back := func(before string, state journal.State, of int) journal.Run {
		r := run(before, state)
		r.Command = fmt.Sprintf("rollback %d", of)
		return r
	}
	workers := run("a:2", journal.Failed)
	workers.Command = "upgrade workers v1.36.3"
	upgraded := run("a:1", done)
	upgraded.Command = workers.Command
	tests := []struct {
		name string
		runs []journal.Run
		now  string
		want int // 0: refused
	}{
		{"the newest", []journal.Run{run("a:1", done), run("a:2", done)}, "a:3", 2},
		{"brought to two others", []journal.Run{run("a:1", done), run("a:2", done), run("a:2", done)}, "a:2", 1},
		{"a rollback, and again", []journal.Run{run("a:1", done), run("a:2", done), run("a:1", done)}, "a:1", 2},
		{"an init that has failed", []journal.Run{run("a:1", done), repair}, "a:2", 1},
		{"workers that have failed", []journal.Run{run("a:1", done), workers}, "a:2", 1},
		{"cut short before the record", []journal.Run{run("a:1", done), run("a:2", cut)}, "a:2", 2},
		{"cut short, then completed", []journal.Run{run("a:1", cut), run("a:1", done)}, "a:2", 2},
		{"cut short, then led back", []journal.Run{run("a:1", done), run("a:2", cut), run("a:2", done)}, "a:2", 1},
		{"a rollback cut short", []journal.Run{run("a:1", done), back("a:2", cut, 1)}, "a:2", 1},
		{"a rollback that has failed", []journal.Run{run("a:1", done), back("a:2", journal.Failed, 1)}, "a:1", 1},
		{
			"a rollback that has failed, and its end",
			[]journal.Run{run("a:1", done), back("a:2", journal.Failed, 1), back("a:1", done, 1)},
			"a:1", 2,
		},
		{"a rollback that is done", []journal.Run{run("a:1", done), back("a:2", done, 1)}, "a:1", 2},
		{"a rollback cut short, then completed otherwise", []journal.Run{run("a:1", done), back("a:2", cut, 1), run("a:1", done)}, "a:1", 2},
		{"a rollback cut short, then an upgrade of workers", []journal.Run{run("a:1", done), back("a:2", cut, 1), upgraded}, "a:1", 1},
		{"a rollback of a run that is gone", []journal.Run{back("a:2", cut, 9)}, "a:2", 0},
		{"adopted since", []journal.Run{run("a:1", done), run("", done)}, "a:2", 0},
		{"repaired since it was adopted", []journal.Run{run("a:1", done), run("", done), run("a:2", done)}, "a:2", 0},
		{"changed since it was adopted", []journal.Run{run("", done), run("a:1", done)}, "a:2", 2},
		{"nothing but repairs", []journal.Run{run("a:1", done)}, "a:1", 0},
		{"nothing", nil, "a:1", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for i := range test.runs {
				test.runs[i].ID = i + 1
			}
			got, err := newestChange(test.runs, record(test.now))
			if test.want == 0 {
				phasestest.WantError(t, err, "find the way back", finding.ExitRefused)
				return
			}
			if err != nil || got.ID != test.want {
				t.Errorf("got %+v, %v, want run %d", got, err, test.want)
			}
		})
	}
}

// A rollback of an adoption is completed as any other.
func TestNewestChange_Adoption(t *testing.T) {
	for _, tt := range []struct {
		name  string
		state journal.State
		want  int
	}{{"cut short", journal.CutShort, 3}, {"failed", journal.Failed, 3}, {"done", journal.Done, 4}} {
		runs := []journal.Run{{ID: 3, Command: "adopt", State: journal.Done}, {ID: 4, Command: "leave (rollback 3)", State: tt.state}}
		got, err := NewestChange(t.Context(), nil, runs)
		if err != nil || got.ID != tt.want {
			t.Errorf("%s: got %+v, %v, want run %d", tt.name, got, err, tt.want)
		}
	}
}

// Who has chosen the manager's image comes back with it: else a rollback would make the profile's image the user's.
func TestFormerImageBy(t *testing.T) {
	for _, want := range []state.ImageBy{state.ImageByProfile, state.ImageByUser} {
		rec := &state.Record{ImageBy: want, Configuration: config.CloudConfiguration{
			Provider: "onprem", Mode: config.ModeDaemonSet,
			ControllerManager: config.ControllerManager{Image: "example.org/ccm:v1"},
		}}
		rec.APIVersion, rec.Kind = v1alpha1.APIVersion, state.RecordKind
		before, err := rec.Encode()
		if err != nil {
			t.Fatal(err)
		}
		by, err := FormerImageBy(&journal.Run{Before: string(before)})
		if err != nil || by != want {
			t.Fatalf("%s, %v, want %s", by, err, want)
		}
		r, s := &workflow.Run{Request: workflow.Request{ImageBy: by}}, &settings.Settings{Recorded: &state.Record{}}
		got, err := manager.ImageBy(r, s, "example.org/ccm:v1")
		if err != nil || got != want {
			t.Errorf("the record says %s, %v, want %s", got, err, want)
		}
	}
}

// A lifecycle that an adoption holds is nobody's word: a rollback leaves it to adopt.
func TestFormerSettings_LifecycleHeld(t *testing.T) {
	for _, held := range []bool{false, true} {
		rec := &state.Record{LifecycleHeld: held, Configuration: config.CloudConfiguration{
			Provider: "onprem", Mode: config.ModeStaticPod, Lifecycle: config.LifecycleOff,
		}}
		rec.APIVersion, rec.Kind = v1alpha1.APIVersion, state.RecordKind
		data, err := rec.Encode()
		if err != nil {
			t.Fatal(err)
		}
		settings, _, err := FormerSettings(&journal.Run{Before: string(data)})
		if err != nil || (settings.Lifecycle == "") != held {
			t.Errorf("held %t: %q, %v", held, settings.Lifecycle, err)
		}
	}
}

// A record that a newer ccmadm wrote, with a field that this one does not know, is no way back for it.
func TestRollback_RecordOfANewerOne(t *testing.T) {
	const before = "apiVersion: ccmadm.dev/v1alpha1\nkind: Record\nwrittenBy: v9.0.0\nconfiguration: {provider: onprem, mode: DaemonSet, fromTheFuture: x}\n"
	run := journal.Run{ID: 8, Command: "apply", State: journal.Done, Before: before}
	const want = "go back to before run 8, whose record ccmadm v9.0.0 has written"
	_, _, err := FormerSettings(&run)
	phasestest.WantError(t, err, want, finding.ExitRefused)
	_, err = newestChange([]journal.Run{run}, &state.Record{})
	phasestest.WantError(t, err, want, finding.ExitRefused)
}
