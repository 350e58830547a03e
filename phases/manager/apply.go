package manager

import (
	"context"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// Apply lists the phases of `ccmadm apply` in their order. They are those of init that kubeadm has no part in, on a
// control plane that lives, between a check of what may change and a look at what runs.
func Apply() []workflow.Phase {
	return []workflow.Phase{
		ApplyPreflight(),
		Kubeconfig(),
		CloudConfig(), // before what reads it
		RBAC(),        // before what needs it
		Addon(),       // deletes the workload before a static pod takes its port, and creates it before one leaves that
		ApplyControlPlane(),
		NodeAgent(),
		Rollout(),
		formerManagers(), // once the new one works
		Record(),         // then, too: until then, the record leads back
	}
}

// ApplyPreflight checks that this is a control plane, and that what would change may change.
func ApplyPreflight() workflow.Phase {
	return workflow.Phase{
		Name:    "preflight",
		Journal: workflow.JournalNever,
		Short:   "Check that this is a control plane, and that what would change may change",
		Long: `Reads the cluster's record, the profile, credentials, and what ccmadm wrote on this machine. Writes nothing. It refuses
what no cluster can change (its name), and what takes more than this command does: another provider, and a change from or
to mode Manual.`,
		Run: func(ctx context.Context, r *workflow.Run) error {
			return workflow.RunChecks(ctx, r, []workflow.Check{
				{ID: finding.CheckPrivileged, Run: workflow.CheckRoot},
				{ID: finding.CheckClusterRecord, Run: record.CheckChange}, // which the settings need
				{ID: finding.CheckProvider, Run: record.CheckProvider},
				{ID: finding.CheckExternalCA, Run: CheckExternalCA},
				{ID: finding.CheckWritable, Run: workflow.CheckWritable},
				{ID: finding.CheckCloudConfig, Run: CheckCloudConfig},
				{ID: finding.CheckStaticPod, Run: CheckManifestUntouched},
				{ID: finding.CheckImages, Run: CheckImages},
				{ID: finding.CheckManifests, Run: tryOut},
			})
		},
	}
}

// tryOut runs the phases that write, as a dry run that nobody sees: what cannot be rendered, or is somebody else's by
// now, is found before anything is written. What each would change is kept for the journal.
func tryOut(ctx context.Context, r *workflow.Run) error {
	if r.DryRun || r.Single {
		return nil
	}
	trial, err := workflow.PreviewPhases(ctx, r, Apply()[1:])
	if err != nil {
		return err
	}
	r.Course.AllTried = true
	return trial.Refusal()
}

// CheckManifests makes all that later phases write or apply, and keeps none of it: an image that nobody knows or a
// setting without which the provider cannot run must not show when half a cluster is there.
func CheckManifests(ctx context.Context, r *workflow.Run) error {
	s, err := r.Settings(ctx)
	if err != nil || s.Mode == config.ModeManual {
		return err
	}
	trial := r.InPhase(r.Phase)
	trial.DryRun = true // there is no CA yet that names the cluster, and no endpoint
	files, err := CloudFiles(ctx, trial, s)
	if err != nil {
		return err
	}
	v, err := values(trial.Host, s, files)
	if err != nil {
		return err
	}
	v.Endpoint = workflow.LocalServer(trial.Host)
	if s.Mode == config.ModeStaticPod {
		if _, err = manifests.StaticPod(s.Profile, v); err != nil {
			return err
		}
	}
	_, err = manifests.Addon(s.Profile, v)
	return err
}
