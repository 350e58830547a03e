package upgrade

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// Upgrade is what `ccmadm upgrade apply` and `ccmadm upgrade node` are told beside the settings.
type Upgrade struct {
	// Version is the one that the first control plane and the cluster's configuration come to; empty: this machine follows
	// the cluster's configuration.
	Version string
	// Image is the cloud-controller-manager's for the version; empty: the profile's.
	Image string
	// Config is a file with kubeadm's UpgradeConfiguration, for its --config.
	Config string
	// ConfigText is what it says.
	ConfigText string
	// Rest are further arguments of kubeadm's.
	Rest []string
	// Remote is how the other machines are upgraded from this one; by hand, they are not.
	fleet.Remote
	// Whose is the machine that is meant: on any other one it is refused.
	Whose kubelet.Whose
	// Again are the flags that a command has to repeat which goes on with --via.
	Again []string
	// Driven says that this machine is upgraded from another one, which says what is left, and has sent ConfigText.
	Driven bool

	target  *version.Version
	manager string // the image that the manager comes to in this run; empty: its turn has not come
	next    string // the image that was named, and that the last control plane brings
	imageBy v1alpha1.ImageBy
	waits   []string // control planes whose API server is older than that image's Kubernetes
	moves   bool     // the image is another one than the present
	kubeadm bool     // kubeadm's half is to be run
	others  []*other // that are upgraded from here; nil: they were not asked yet

	record.Ordinary
}

// first tells whether this is the upgrade of the cluster's configuration.
func (u *Upgrade) first() bool { return u.Version != "" }

// command is how the journal and the machine's state call it.
func (u *Upgrade) command() string {
	if u.first() {
		return "upgrade apply v" + u.target.String()
	}
	return "upgrade node v" + u.target.String()
}

// ControlPlane lists the phases of `ccmadm upgrade apply`, and of `ccmadm upgrade node` on a control plane, in
// their order. Those that apply has are the same ones.
func ControlPlane() []workflow.Phase {
	return []workflow.Phase{
		upgradePreflight(),
		cleanConfiguration(), // before kubeadm writes static pods from it
		kubeadmUpgrade(),
		noted(kubeletFlags()), // which kubeadm has written again
		noted(renewIdentity()),
		inTurn(manager.CloudConfig()),
		inTurn(manager.RBAC()),
		inTurn(manager.Addon()),
		inTurn(manager.ApplyControlPlane()),
		inTurn(manager.NodeAgent()),
		beforeOthers(inTurn(noted(manager.Rollout()))),
		manager.Record(), // until then, the record leads back
		beforeOthers(probeService()),
		upgradeOthers(), // once this machine is done, of which the others take the configuration
		showRest(),
	}
}

// Worker lists the phases of `ccmadm upgrade node` on a worker. A kubelet's permissions give it no journal.
func Worker() []workflow.Phase {
	return []workflow.Phase{
		workerPreflight(),
		kubeadmUpgrade(),
		kubeletFlags(),
		probeService(),
		showWorkersRest(),
	}
}

// inTurn leaves a phase out until the manager's turn has come.
func inTurn(p workflow.Phase) workflow.Phase {
	run, plan := p.Run, p.Plan
	p.Run = func(ctx context.Context, d *workflow.Data) error {
		if upgradeOf(d).manager == "" {
			return nil
		}
		return run(ctx, d)
	}
	if plan != nil {
		p.Plan = func(ctx context.Context, d *workflow.Data) (string, error) {
			if upgradeOf(d).manager == "" {
				return "nothing yet", nil
			}
			return plan(ctx, d)
		}
	}
	return p
}

// upgradeStep runs a phase, as a step of the journal where it changes something.
func upgradeStep(ctx context.Context, d *workflow.Data, p workflow.Phase) error {
	change := d.Known.Previews[p.Name].Change
	if d.Known.Journal == nil || p.Journal == workflow.JournalItself || change == "" && p.Journal != workflow.JournalAlways {
		return p.Run(ctx, d)
	}
	return workflow.JournalStep(ctx, d, p, change, cmp.Or(p.Undo, workflow.RollbackTo(d)))
}

// noted has a phase be a step of each upgrade that changes something, with nothing to be taken back.
func noted(p workflow.Phase) workflow.Phase {
	p.Journal, p.Undo = workflow.JournalAlways, "none is needed"
	return p
}

// beginUpgrade opens the journal where something is to be done, and holds its Lease from then on. A run that was cut
// short gets an end there even if nothing was left to do: as long as it has none, this machine counts as half upgraded.
func beginUpgrade(ctx context.Context, d *workflow.Data, resumed bool) error {
	if d.DryRun {
		return nil
	}
	identity, err := identityLags(ctx, d)
	if err != nil {
		return err
	}
	pending := upgradeOf(d).kubeadm || identity || resumed
	for _, found := range d.Known.Previews {
		pending = pending || found.Change != ""
	}
	if !pending {
		return nil
	}
	return workflow.OpenJournal(ctx, d)
}

// upgradeCutShort tells whether the last upgrade on this machine was this one, and did not come to its end.
func upgradeCutShort(ctx context.Context, d *workflow.Data) (bool, error) {
	client, err := workflow.Connect(d, machine.AdminConf)
	if err != nil {
		return false, err
	}
	runs, err := journal.Read(ctx, client)
	if err != nil {
		return false, err
	}
	node, err := workflow.NodeName(d)
	if err != nil {
		return false, err
	}
	last := lastUpgrade(runs, node)
	return last.Command == d.Command && last.State != journal.Done, nil
}

// lastUpgrade is the last one that was begun on a control plane; the zero value: there was none.
func lastUpgrade(runs []journal.Run, node string) journal.Run {
	for _, run := range slices.Backward(runs) {
		if run.Machine == node && strings.HasPrefix(run.Command, "upgrade ") {
			return run
		}
	}
	return journal.Run{}
}
