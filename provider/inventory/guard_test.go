package inventory

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
)

func bounds() Bounds { return Bounds{MaxAge: 10 * time.Minute, Silence: 5 * time.Minute} }

func policy(d config.Deletion) config.InventoryPolicy {
	return config.InventoryPolicy{
		Deletion: d, Absence: config.AbsencePolicy{MinSnapshots: 3, MinDuration: minutes(15)},
		DeletionBudget: config.DeletionBudget{Max: 1, Per: minutes(10), MaxPercent: 10},
	}
}

// tombstoned is a machine that is gone by all rules.
func tombstoned() Evidence {
	return Evidence{
		OurSite: true, UpToDate: true, Readings: 3,
		Machine: &config.Machine{ID: "a", State: config.MachineDecommissioned},
		Leading: MinLeading, Silent: 5 * time.Minute, Nodes: 20, Candidates: 2,
	}
}

// vanished is, too, but it is no longer listed.
func vanished() Evidence {
	e := tombstoned()
	e.Machine, e.WasListed, e.MissingIn, e.MissingSince = nil, true, 3, 15*time.Minute
	return e
}

// Each rule alone saves the Node.
func TestGuard(t *testing.T) {
	for _, tt := range []struct {
		name   string
		policy config.InventoryPolicy
		from   func() Evidence
		change func(*Evidence)
		want   finding.ID
	}{
		{
			name:   "decommissioned",
			policy: policy(config.DeletionTombstone),
			from:   tombstoned,
			change: func(*Evidence) {},
		},
		{
			name:   "decommissioned, and absence would do as well",
			policy: policy(config.DeletionAbsence),
			from:   tombstoned,
			change: func(*Evidence) {},
		},
		{
			name:   "absent",
			policy: policy(config.DeletionAbsence),
			from:   vanished,
			change: func(*Evidence) {},
		},
		{
			name:   "a control plane that is forced",
			policy: policy(config.DeletionTombstone),
			from:   tombstoned,
			change: func(e *Evidence) { e.ControlPlane, e.Machine.Force = true, true },
		},
		{
			name:   "the old name of a machine",
			policy: policy(config.DeletionTombstone),
			from:   tombstoned,
			change: func(e *Evidence) { e.Machine.State, e.Renamed = config.MachineActive, true },
		},
		{
			name:   "one candidate is never too many",
			policy: policy(config.DeletionTombstone),
			from:   tombstoned,
			change: func(e *Evidence) { e.Nodes, e.Candidates = 2, 1 },
		},

		{
			name:   "no provider ID, a foreign one, another site",
			policy: policy(config.DeletionTombstone),
			from:   tombstoned,
			change: func(e *Evidence) { e.OurSite = false },
			want:   finding.NotOurs,
		},
		{
			name:   "the latest reading was rejected",
			policy: policy(config.DeletionTombstone),
			from:   tombstoned,
			change: func(e *Evidence) { e.UpToDate = false },
			want:   finding.NotUpToDate,
		},
		{
			name:   "an old inventory",
			policy: policy(config.DeletionTombstone),
			from:   tombstoned,
			change: func(e *Evidence) { e.Age = 10*time.Minute + 1 },
			want:   finding.NotUpToDate,
		},
		{
			name:   "few readings",
			policy: policy(config.DeletionTombstone),
			from:   tombstoned,
			change: func(e *Evidence) { e.Readings = 2 },
			want:   finding.NotUpToDate,
		},
		{
			name:   "an active machine",
			policy: policy(config.DeletionTombstone),
			from:   tombstoned,
			change: func(e *Evidence) { e.Machine.State = config.MachineActive },
			want:   finding.NotGone,
		},
		{
			name:   "the old name of a machine, deletion: never",
			policy: policy(config.DeletionNever),
			from:   tombstoned,
			change: func(e *Evidence) { e.Machine.State, e.Renamed = config.MachineActive, true },
			want:   finding.NotGone,
		},
		{
			name:   "a machine in maintenance",
			policy: policy(config.DeletionAbsence),
			from:   tombstoned,
			change: func(e *Evidence) { e.Machine.State = config.MachineMaintenance },
			want:   finding.NotGone,
		},
		{
			name:   "deletion: never",
			policy: policy(config.DeletionNever),
			from:   tombstoned,
			change: func(*Evidence) {},
			want:   finding.NotGone,
		},
		{
			name:   "no policy",
			policy: config.InventoryPolicy{},
			from:   tombstoned,
			change: func(*Evidence) {},
			want:   finding.NotGone,
		},
		{
			name:   "absent, but tombstones are asked for",
			policy: policy(config.DeletionTombstone),
			from:   vanished,
			change: func(*Evidence) {},
			want:   finding.NotGone,
		},
		{
			name:   "absent, but never listed",
			policy: policy(config.DeletionAbsence),
			from:   vanished,
			change: func(e *Evidence) { e.WasListed = false },
			want:   finding.NotGone,
		},
		{
			name:   "absent in few readings",
			policy: policy(config.DeletionAbsence),
			from:   vanished,
			change: func(e *Evidence) { e.MissingIn = 2 },
			want:   finding.NotGone,
		},
		{
			name:   "absent for a moment",
			policy: policy(config.DeletionAbsence),
			from:   vanished,
			change: func(e *Evidence) { e.MissingSince = 15*time.Minute - 1 },
			want:   finding.NotGone,
		},
		{
			name:   "protected",
			policy: policy(config.DeletionTombstone),
			from:   tombstoned,
			change: func(e *Evidence) { e.Machine.Protected = true },
			want:   finding.Protected,
		},
		{
			name:   "protected, and forced by mistake",
			policy: policy(config.DeletionTombstone),
			from:   tombstoned,
			change: func(e *Evidence) { e.Machine.Protected, e.Machine.Force = true, true },
			want:   finding.Protected,
		},
		{
			name:   "a control plane",
			policy: policy(config.DeletionTombstone),
			from:   tombstoned,
			change: func(e *Evidence) { e.ControlPlane = true },
			want:   finding.ControlPlane,
		},
		{
			name:   "a control plane that is absent",
			policy: policy(config.DeletionAbsence),
			from:   vanished,
			change: func(e *Evidence) { e.ControlPlane = true },
			want:   finding.ControlPlane,
		},
		{
			name:   "a new leader",
			policy: policy(config.DeletionTombstone),
			from:   tombstoned,
			change: func(e *Evidence) { e.Leading = MinLeading - 1 },
			want:   finding.NewLeader,
		},
		{
			name:   "a kubelet that talks",
			policy: policy(config.DeletionTombstone),
			from:   tombstoned,
			change: func(e *Evidence) { e.Silent = 5*time.Minute - 1 },
			want:   finding.StillTalking,
		},
		{
			name:   "too many at once",
			policy: policy(config.DeletionTombstone),
			from:   tombstoned,
			change: func(e *Evidence) { e.Candidates = 3 },
			want:   finding.TooManyAtOnce,
		},
		{
			name:   "the budget",
			policy: policy(config.DeletionTombstone),
			from:   tombstoned,
			change: func(e *Evidence) { e.Deleted = 1 },
			want:   finding.BudgetExhausted,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := tt.from()
			tt.change(&e)
			if got := Guard(tt.policy, bounds(), e); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// Whatever else is the case: who talks, stays; so does who is not listed as gone.
func TestGuard_Property(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	kept := 0
	for range 200_000 {
		e := Evidence{
			OurSite: r.IntN(8) > 0, UpToDate: r.IntN(8) > 0, Age: time.Duration(r.IntN(12)) * time.Minute, Readings: r.IntN(20),
			WasListed: r.IntN(4) > 0, MissingIn: r.IntN(10), MissingSince: time.Duration(r.IntN(40)) * time.Minute,
			ControlPlane: r.IntN(8) == 0, Leading: time.Duration(r.IntN(10)) * time.Minute, Silent: time.Duration(r.IntN(20)) * time.Minute,
			Nodes: r.IntN(100), Candidates: r.IntN(5), Deleted: r.IntN(2),
		}
		if r.IntN(2) == 0 {
			states := []config.MachineState{
				config.MachineActive, config.MachineMaintenance,
				config.MachineDecommissioned, config.MachineDecommissioned,
			}
			e.Machine = &config.Machine{State: states[r.IntN(4)], Protected: r.IntN(8) == 0, Force: r.IntN(2) == 0}
		}
		p := policy([]config.Deletion{
			config.DeletionNever, config.DeletionTombstone,
			config.DeletionAbsence,
		}[r.IntN(3)])
		if Guard(p, bounds(), e) != "" {
			kept++
			continue
		}
		switch {
		case e.Silent < bounds().Silence,
			!e.OurSite, !e.UpToDate, p.Deletion == config.DeletionNever,
			e.Machine != nil && (e.Machine.State != config.MachineDecommissioned || e.Machine.Protected),
			e.Machine == nil && p.Deletion != config.DeletionAbsence:
			t.Fatalf("deleted by %+v: %+v", p, e)
		}
	}
	if kept == 200_000 || kept == 0 {
		t.Errorf("kept %d Nodes: the histories say nothing", kept)
	}
}
