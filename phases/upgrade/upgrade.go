package upgrade

import (
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/phases/fleet"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/kubelet"
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
	imageBy state.ImageBy
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
		return journal.CommandUpgradeApply + " v" + u.target.String()
	}
	return journal.CommandUpgradeNode + " v" + u.target.String()
}

// upgradeOf is what the run was told beside the settings. A phase of this package is in lists of an upgrade only.
func upgradeOf(r *workflow.Run) *Upgrade { return r.Operation.(*Upgrade) }
