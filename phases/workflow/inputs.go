package workflow

import (
	"context"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/kubeadm"
)

// Inputs are what a run is made of. It keeps its Request; all else its Env, its Host and itself have from then on.
type Inputs struct {
	// Role is Init or Join.
	Role kubeadm.Role
	// Existing says that the machine is a control plane of an existing cluster: what its record says holds, and what is said
	// in this run changes it.
	Existing bool
	// Command is what the journal of an existing cluster calls the run, unless the run is given another name.
	Command string
	// Line is the command line that does the same again, for the journal. Never a secret.
	Line string
	// Operation is what the command decides about its run.
	Operation Operation
	// Kubeconfig replaces the administrator's, or on a worker the kubelet's.
	Kubeconfig string
	// Output is "text", "json" or "yaml", for the progress of waiting.
	Output string
	// DryRun shows what would change, and changes nothing.
	DryRun bool
	// Force replaces a file that was edited by hand.
	Force bool
	// Quiet leaves out lines about files and objects that stay as they are.
	Quiet bool
	Request
}

// Request is what the command line asks of one run.
type Request struct {
	// Single is set when one phase was asked for by name.
	Single bool
	// ConfigFile holds kubeadm's documents, ours, or both.
	ConfigFile string
	// Flags are the settings given as flags; they win over every file.
	Flags config.CloudConfiguration
	// Kubeadm are kubeadm's own flags and arguments, of kubeadm.Flags; nil: none is given.
	Kubeadm *pflag.FlagSet
	// IgnorePreflightErrors are names of checks whose failure is only a warning; "all" means each.
	IgnorePreflightErrors []string
	// InstallUnit asks the kubelet phase for a unit that runs it at each boot.
	InstallUnit bool
	// CheckFiles looks into the files of a provider that the caller knows from inside, by their names in the pod; may be
	// nil.
	CheckFiles func(provider string, files map[string][]byte) error
	// ReleaseBalancers gives back what our own provider holds of Services, as often as it is called. A cluster that leaves,
	// or goes to another provider, has to have it.
	ReleaseBalancers func(context.Context, kubernetes.Interface) error
	// ImageBy is who has chosen the manager's image, where that is known from before; empty: it is found out.
	ImageBy state.ImageBy
	// AllChecksHold says that no failed check can be made a warning.
	AllChecksHold bool
}
