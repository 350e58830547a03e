package doctor

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/doctor/probe"
	"github.com/ccmadm/ccmadm/phases/journal"
)

// TestDoctor_ProbeVerdict: that nothing was found is no health where Nodes could not ask, and is where all did.
func TestDoctor_ProbeVerdict(t *testing.T) {
	answered := probe.Source{Node: "w1", From: probe.Machine, Answer: probe.Answer{Version: 1}}
	dropped := probe.Source{
		Node: "w1", From: probe.Machine, Asked: []int{0}, Answer: probe.Answer{Failed: []probe.Failure{{Kind: probe.Dropped}}},
	}
	for name, tt := range map[string]struct {
		facts   *probe.Facts
		notSeen []diagnosis.NotSeen
		want    finding.ExitCode
	}{
		"no probe":           {},
		"all asked":          {facts: &probe.Facts{Sources: []probe.Source{answered}}},
		"one could not":      {facts: &probe.Facts{Sources: []probe.Source{answered, {Unasked: "ErrImagePull"}}}, want: finding.ExitError},
		"none was asked":     {facts: &probe.Facts{}, want: finding.ExitError},
		"DNS cannot be read": {facts: &probe.Facts{Sources: []probe.Source{answered}, Unknown: []string{"DNS"}}, want: finding.ExitError},
		"another is at work": {notSeen: []diagnosis.NotSeen{{What: diagnosis.PartProbe, Message: "no"}}, want: finding.ExitError},
		"found, and not seen": {
			facts: &probe.Facts{Targets: make([]probe.Target, 1), Sources: []probe.Source{dropped, {Unasked: "no"}}}, want: finding.ExitFound,
		},
	} {
		if tt.facts != nil && len(tt.facts.Targets) > 0 {
			tt.facts.Targets[0] = probe.Target{Subject: probe.Service, Object: "Service/default/kubernetes", Address: "10.96.0.1:443"}
		}
		d := diagnosis.Diagnose(&diagnosis.Snapshot{Probe: tt.facts, NotSeen: tt.notSeen, Taken: time.Now()})
		d.Causes = slices.DeleteFunc(d.Causes, func(c diagnosis.Cause) bool { return c.ID[0] != 'T' }) // this cluster has no manager
		err := verdict(d)
		var known *finding.Error
		got := finding.ExitDone
		switch {
		case errors.Is(err, usage.ErrFound):
			got = finding.ExitFound
		case errors.As(err, &known):
			got = known.Code
		}
		if got != tt.want {
			t.Errorf("%s: got %v, want exit status %d", name, err, tt.want)
		}
	}
}

// A look that comes before a Lease can end leaves the rest to the next one; a later one has to watch by itself.
func TestRunPatience(t *testing.T) {
	for _, tt := range []struct {
		d    *doctor
		want time.Duration
	}{
		{&doctor{}, journal.WatchLease},
		{&doctor{watch: true, interval: 10 * time.Second}, 0},
		{&doctor{watch: true, interval: journal.LeaseLasts}, journal.WatchLease},
	} {
		if got := tt.d.runPatience(); got != tt.want {
			t.Errorf("watch %v, interval %v: %v, want %v", tt.d.watch, tt.d.interval, got, tt.want)
		}
	}
}
