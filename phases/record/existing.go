package record

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// ExistingRecord is that of the cluster that lives. Nothing is known without it: neither what to repair nor what would
// change.
func ExistingRecord(ctx context.Context, r *workflow.Run) (*state.Record, error) {
	return r.Cache.Record.Get(func() (*state.Record, error) {
		client, err := workflow.AdminClient(r.Env)
		if err != nil {
			return nil, err
		}
		rec, err := workflow.AskRecord(ctx, client)
		switch {
		case apierrors.IsNotFound(err) && r.Operation.Begins():
			return nil, nil // its first run has not come to the end yet
		case apierrors.IsNotFound(err):
			return nil, finding.Refusedf("compare with the cluster's record: %w", err).
				WithHint("a cluster that ccmadm has not made: `ccmadm adopt --provider NAME --dry-run` shows how it is taken " +
					"into external cloud mode. One whose record was lost: `ccmadm init phase record` publishes it again. Nothing " +
					"was changed")
		case err != nil:
			return nil, finding.Refusedf("compare with the cluster's record: %w", err).
				WithHint("nothing was changed; run the same command again when the API server answers")
		}
		return rec, nil
	})
}

// CheckChange is the first to ask for the settings, which are refused where they cannot become what is said.
func CheckChange(ctx context.Context, r *workflow.Run) error {
	_, err := r.Settings(ctx)
	return err
}

// changeContradicted is what apply says, and each other operation that changes an existing cluster.
func changeContradicted() Contradicted {
	return Contradicted{
		Command: journal.CommandApply,
		Hint: "leave it out: nothing changes the name of a cluster, and no command of this release mode Manual or the " +
			"address of its control plane; `ccmadm adopt --provider` changes the provider where the Nodes' provider IDs allow it",
	}
}

// refuseChange refuses what these phases cannot change, each by itself too.
func refuseChange(ctx context.Context, r *workflow.Run, rec *state.Record) error {
	said, known := r.Said, rec.Configuration
	if settings.SaysOther(said.Provider, known.Provider) {
		changes, err := r.Operation.OtherProvider(ctx, r, &known)
		if err != nil {
			return err
		}
		if changes {
			said.Provider = ""
		}
	}
	fixed := config.CloudConfiguration{
		Provider: said.Provider, ClusterName: said.ClusterName, ControlPlaneVIP: said.ControlPlaneVIP,
	}
	if said.Mode == config.ModeManual || known.Mode == config.ModeManual {
		fixed.Mode = said.Mode
	}
	if ifi := said.ControlPlaneVIP.Interface; ifi != "" && ifi != known.ControlPlaneVIP.Interface {
		return finding.Refusedf("apply with controlPlaneVIP.interface %q: the cluster's record says %q", ifi,
			known.ControlPlaneVIP.Interface).WithHint("leave it out: it is each control plane's own")
	}
	return RefuseContradictions(changeContradicted(), fixed, rec)
}

// refuseProvider names the Nodes that another provider would not know: a provider ID cannot change. Without any, the
// caller has its own words.
func refuseProvider(ctx context.Context, r *workflow.Run, known string) error {
	client, err := workflow.Connect(r.Env, machine.AdminConf)
	if err != nil {
		return err
	}
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return finding.Refusedf("look at the Nodes' provider IDs: %w", err).WithHint("nothing was changed")
	}
	var names []string
	for i := range list.Items {
		if id := list.Items[i].Spec.ProviderID; id != "" {
			names = append(names, "Node/"+list.Items[i].Name+" "+id)
		}
	}
	count := len(names)
	if count == 0 {
		return nil
	}
	if count > workflow.ShownNodes {
		names = append(names[:workflow.ShownNodes], fmt.Sprintf("and %d more", count-workflow.ShownNodes))
	}
	return finding.Refusedf("apply with provider %q: the cluster's record says %q, and provider IDs cannot change: %s",
		r.Said.Provider, known, strings.Join(names, ", ")).
		WithHint("leave it out; where the other provider has the same IDs, `ccmadm adopt --provider %s` changes it, "+
			"and else a Node comes to it as a new one. Nothing was changed", r.Said.Provider)
}

// refuseOtherLease keeps two managers from leading, each by a Lease of its own, while one replaces the other.
func refuseOtherLease(s *settings.Settings) error {
	before, err := settings.RecordedProfile(s.Recorded)
	if err != nil {
		return err
	}
	if was, is := before.LeaseName(), s.Profile.LeaseName(); was != is {
		return finding.Refusedf("apply with a profile whose lease is %q: that of the cluster's record is %q", is, was).
			WithHint("keep the recorded lease name in the profile: with two names, two managers would lead at the same time; nothing was changed")
	}
	return nil
}
