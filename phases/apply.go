package phases

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
)

// Apply lists the phases of `ccmadm apply` in their order. They are those of init that kubeadm has no part in, on a
// control plane that lives, between a check of what may change and a look at what runs.
func Apply() []Phase {
	return []Phase{
		applyPreflight(),
		kubeconfig(),
		cloudConfig(), // before what reads it
		rbac(),        // before what needs it
		addon(),       // deletes the workload before a static pod takes its port, and creates it before one leaves that
		applyControlPlane(),
		nodeAgent(),
		rollout(),
		formerManagers(), // once the new one works
		record(),         // then, too: until then, the record leads back
	}
}

func applyPreflight() Phase {
	return Phase{
		Name:    "preflight",
		Journal: JournalNever,
		Short:   "Check that this is a control plane, and that what would change may change",
		Long: `Reads the cluster's record, the profile, credentials, and what ccmadm wrote on this machine. Writes nothing. It refuses
what no cluster can change (its name), and what takes more than this command does: another provider, and a change from or
to mode Manual.`,
		Run: func(ctx context.Context, d *Data) error {
			return runChecks(ctx, d, []Check{
				{finding.CheckPrivileged, checkRoot},
				{finding.CheckClusterRecord, checkChange}, // which the settings need
				{finding.CheckProvider, checkProvider},
				{finding.CheckExternalCA, checkExternalCA},
				{finding.CheckWritable, checkWritable},
				{finding.CheckCloudConfig, checkCloudConfig},
				{finding.CheckStaticPod, checkManifestUntouched},
				{finding.CheckManifests, tryOut},
			})
		},
	}
}

// livingRecord is that of the cluster that lives. Nothing is known without it: neither what to repair nor what would
// change.
func livingRecord(ctx context.Context, d *Data) (*v1alpha1.Record, error) {
	return d.known.record.get(func() (*v1alpha1.Record, error) {
		client, err := livingClient(d)
		if err != nil {
			return nil, err
		}
		rec, err := askRecord(ctx, client)
		switch {
		case apierrors.IsNotFound(err) && d.Operation.Begins():
			return nil, nil // its first run has not come to the end yet
		case apierrors.IsNotFound(err):
			return nil, finding.Refusedf("compare with the cluster's record: %w", err).
				WithHint("a cluster that ccmadm has not made: `ccmadm adopt --provider NAME --dry-run` shows how it is taken " +
					"into external cloud mode. One whose record was lost: `ccmadm init phase record` publishes it again. Nothing " +
					"was changed")
		case err != nil:
			return nil, finding.Refusedf("compare with the cluster's record: %w", err).
				WithHint("nothing was changed; the same command again, once the API server answers")
		}
		return rec, nil
	})
}

func refuseWithoutCluster(d *Data) error {
	there, err := d.Machine.Exists(machine.AdminConf)
	if err == nil && there {
		return nil
	}
	return finding.Refusedf("find the cluster of this machine: there is no %s", machine.AdminConf).
		WithHint("this command runs on a control plane, as root")
}

// checkChange is the first to ask for the settings, which are refused where they cannot become what is said.
func checkChange(ctx context.Context, d *Data) error {
	_, err := d.Settings(ctx)
	return err
}

// refuseChange refuses what these phases cannot change, each by itself too.
func refuseChange(ctx context.Context, d *Data, rec *v1alpha1.Record) error {
	said, known := d.Said, rec.Configuration
	if saysOther(said.Provider, known.Provider) {
		changes, err := d.Operation.OtherProvider(ctx, d, &known)
		if err != nil {
			return err
		}
		if changes {
			said.Provider = ""
		}
	}
	fixed := v1alpha1.CloudConfiguration{
		Provider: said.Provider, ClusterName: said.ClusterName, ControlPlaneVIP: said.ControlPlaneVIP,
	}
	if said.Mode == v1alpha1.ModeManual || known.Mode == v1alpha1.ModeManual {
		fixed.Mode = said.Mode
	}
	if ifi := said.ControlPlaneVIP.Interface; ifi != "" && ifi != known.ControlPlaneVIP.Interface {
		return finding.Refusedf("apply with controlPlaneVIP.interface %q: the cluster's record says %q", ifi,
			known.ControlPlaneVIP.Interface).WithHint("leave it out: it is each control plane's own")
	}
	return refuseContradictions("apply", fixed, rec)
}

// shownNodes is how many Nodes an error names.
const shownNodes = 5

// refuseProvider names the Nodes that another provider would not know: a provider ID cannot change. Without any, the
// caller has its own words.
func refuseProvider(ctx context.Context, d *Data, known string) error {
	client, err := connect(d, machine.AdminConf)
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
	if count > shownNodes {
		names = append(names[:shownNodes], fmt.Sprintf("and %d more", count-shownNodes))
	}
	return finding.Refusedf("apply with provider %q: the cluster's record says %q, and provider IDs cannot change: %s",
		d.Said.Provider, known, strings.Join(names, ", ")).
		WithHint("leave it out; where the other provider has the same IDs, `ccmadm adopt --provider %s` changes it, "+
			"and else a Node comes to it as a new one. Nothing was changed", d.Said.Provider)
}

// refuseOtherLease keeps two managers from leading, each by a Lease of its own, while one replaces the other.
func refuseOtherLease(s *Settings) error {
	before, err := recordedProfile(s.Recorded)
	if err != nil {
		return err
	}
	if was, is := before.LeaseName(), s.Profile.LeaseName(); was != is {
		return finding.Refusedf("apply with a profile whose lease is %q: that of the cluster's record is %q", is, was).
			WithHint("two managers would work at the same time; nothing was changed")
	}
	return nil
}

// tryOut runs the phases that write, as a dry run that nobody sees: what cannot be rendered, or is somebody else's by
// now, is found before anything is written. What each would change is kept for the journal.
func tryOut(ctx context.Context, d *Data) error {
	if d.DryRun || d.Single {
		return nil
	}
	trial, err := tryPhases(ctx, d, Apply()[1:])
	if err != nil {
		return err
	}
	return trial.Refusal()
}

// Refusal is why a dry run would end without writing anything; nil: it would not.
func (d *Data) Refusal() error {
	if c := d.known.conflict; c != nil && !d.Force {
		return finding.Refusedf("%w", c).WithHint("ccmadm diff shows the difference; --force takes the fields back. Nothing was changed")
	}
	return nil
}

// Changed tells whether the run has changed something, or in a dry run would have.
func (d *Data) Changed() bool { return d.known.changed }

// refuseWithout finds a file that says nothing of the cluster that lives. Kubeadm's documents are for a machine's first
// day: the file of that day may be the one that is applied later.
func refuseWithout(d *Data, found bool, kinds []string) error {
	switch {
	case d.ConfigFile == "":
		return nil
	case !found:
		return finding.Usagef("read %s: no %s was found in it", d.ConfigFile, v1alpha1.ConfigKind).
			WithHint("`ccmadm config print` shows one; without -f the cluster's record is what holds")
	case len(kinds) > 0:
		fmt.Fprintf(d.Err, "ccmadm: note: of %s, %s is not applied: kubeadm's documents are for init and join\n",
			d.ConfigFile, strings.Join(kinds, ", "))
	}
	return nil
}
