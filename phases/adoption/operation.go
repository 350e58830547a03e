package adoption

import (
	"context"

	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

var _ workflow.Operation = (*Adoption)(nil)

// adoptionOf is what the run was told beside the settings.
func adoptionOf(d *workflow.Data) *Adoption { return d.Operation.(*Adoption) }

// Prepare has adopt begin with the configuration of the cluster that kubeadm has made.
func (a *Adoption) Prepare(ctx context.Context, d *workflow.Data) error {
	run := *a // the plan is that of one run
	run.plan = &workflow.Once[[]*fleet.Node]{}
	d.Operation = &run
	if a.Leave {
		return nil
	}
	live, err := adoptable(ctx, d)
	if err == nil {
		d.KubeadmFile = live
	}
	return err
}

// Step runs a phase, as a step of the journal where it changes something. Nodes have steps of their own.
func (a *Adoption) Step(ctx context.Context, d *workflow.Data, p workflow.Phase) error {
	return adoptionStep(ctx, d, p)
}

// End notes on the Node which release has worked here. Leave removes all such notes.
func (a *Adoption) End(ctx context.Context, d *workflow.Data) error {
	if !a.Leave {
		workflow.NoteRelease(ctx, d)
		return nil
	}
	workflow.UpdateReleases(d, func(client kubernetes.Interface) error { return workflow.RemoveReleases(ctx, client) })
	return nil
}

// Begins is true for adopt, whose first run publishes the record.
func (a *Adoption) Begins() bool { return !a.Leave }

// ManagerMayBeAway is true: the manager is installed, and removed, on the way.
func (a *Adoption) ManagerMayBeAway() bool { return true }

// OtherProvider lets adopt change the provider where nothing in the cluster depends on the present one.
func (a *Adoption) OtherProvider(ctx context.Context, d *workflow.Data, known *v1alpha1.CloudConfiguration) (bool, error) {
	if a.Leave {
		return a.Ordinary.OtherProvider(ctx, d, known)
	}
	return true, refuseServed(ctx, d, known)
}

// Said completes a run of adopt that has skipped nodes: it has not switched the lifecycle on yet.
func (a *Adoption) Said(said *v1alpha1.CloudConfiguration, rec *v1alpha1.Record) {
	if !a.Leave && said.Lifecycle == "" && rec != nil && rec.LifecycleHeld {
		said.Lifecycle = v1alpha1.LifecycleGuarded
	}
}

// Mode is a workload for adopt.
func (a *Adoption) Mode(p *templates.Profile) v1alpha1.Mode {
	if a.Leave {
		return a.Ordinary.Mode(p)
	}
	return adoptMode(p)
}
