package adoption

import (
	"context"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

var _ workflow.Operation = (*Adoption)(nil)

// adoptionOf is what the run was told beside the settings. A phase of this package is in lists of adopt and leave only.
func adoptionOf(r *workflow.Run) *Adoption { return r.Operation.(*Adoption) }

// Prepare has adopt begin with the configuration of the cluster that kubeadm has made.
func (a *Adoption) Prepare(ctx context.Context, r *workflow.Run) error {
	run := *a // the plan is that of one run
	run.plan = &workflow.Once[[]*fleet.Node]{}
	r.Operation = &run
	if a.Leave {
		return nil
	}
	live, err := adoptable(ctx, r.Env)
	if err == nil {
		r.KubeadmFile = live
	}
	return err
}

// End notes on the Node which release has worked here. Leave removes all such notes. A dry run ends as the run itself would
// where that is refused.
func (a *Adoption) End(ctx context.Context, r *workflow.Run) error {
	if r.DryRun {
		return r.Refusal()
	}
	if !a.Leave {
		workflow.NoteRelease(ctx, r)
		return nil
	}
	workflow.UpdateReleases(r, func(client kubernetes.Interface) error { return workflow.RemoveReleases(ctx, client) })
	return nil
}

// Begins is true for adopt, whose first run publishes the record.
func (a *Adoption) Begins() bool { return !a.Leave }

// ManagerMayBeAway is true: the manager is installed, and removed, on the way.
func (a *Adoption) ManagerMayBeAway() bool { return true }

// Said completes a run of adopt that has skipped nodes: it has not switched the lifecycle on yet.
func (a *Adoption) Said(said *config.CloudConfiguration, rec *state.Record) {
	if !a.Leave && said.Lifecycle == "" && rec != nil && rec.LifecycleHeld {
		said.Lifecycle = config.LifecycleGuarded
	}
}

// Mode is a workload for adopt.
func (a *Adoption) Mode(p *templates.Profile) config.Mode {
	if a.Leave {
		return a.Ordinary.Mode(p)
	}
	return adoptMode(p)
}

// Adoption is what `ccmadm adopt` and `ccmadm leave` are told beside the settings.
type Adoption struct {
	fleet.Remote

	// Leave is the way back.
	Leave bool
	// Yes answers the question whether to begin.
	Yes bool
	// KeepLoadBalancers leaves those that nobody will serve any more.
	KeepLoadBalancers bool
	// WaitLoadBalancers is for how long those that are there may take to go.
	WaitLoadBalancers time.Duration
	// Purge removes what leave leaves, the journal too.
	Purge bool
	// NodeTimeout is how long a kubelet may take to come back.
	NodeTimeout time.Duration

	record.Ordinary
	plan *workflow.Once[[]*fleet.Node]
}

// adoptMode is a workload: it takes no files on control planes that this run is not on.
func adoptMode(p *templates.Profile) config.Mode {
	for _, mode := range []templates.Mode{templates.DaemonSet, templates.Deployment} {
		if p.Supports(mode) {
			return config.Mode(mode)
		}
	}
	return config.Mode(p.Modes[0])
}
