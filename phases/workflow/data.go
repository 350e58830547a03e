package workflow

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/manifests/apply"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/templates"
)

func refuseWithoutCluster(m *machine.Machine) error {
	there, err := m.Exists(machine.AdminConf)
	if err == nil && there {
		return nil
	}
	return finding.Refusedf("find the cluster of this machine: there is no %s", machine.AdminConf).
		WithHint("this command runs on a control plane, as root")
}

// ShownNodes is how many Nodes an error names.
const ShownNodes = 5

// Refusal is why a dry run would end without writing anything; nil: it would not.
func (d *Data) Refusal() error {
	if c := d.Known.conflict; c != nil && !d.Force {
		return finding.Refusedf("%w", c).WithHint("ccmadm diff shows the difference; --force takes the fields back. Nothing was changed")
	}
	return nil
}

// Changed tells whether the run has changed something, or in a dry run would have.
func (d *Data) Changed() bool { return d.Known.Changed }

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

// Options is the command line of one run.
type Options struct {
	// Role is Init or Join.
	Role kubeadm.Role
	// Living says that the machine is a control plane of a cluster that lives: what its record says holds, and what is said
	// in this run changes it.
	Existing bool
	// Command is what the journal of a cluster that lives calls the run.
	Command string
	// Single is set when one phase was asked for by name.
	Single bool
	// ConfigFile holds kubeadm's documents, ours, or both.
	ConfigFile string
	// Flags are the settings given as flags; they win over every file.
	Flags v1alpha1.CloudConfiguration
	// Kubeadm are kubeadm's own flags and arguments, of kubeadm.Flags.
	Kubeadm *pflag.FlagSet
	// Kubeconfig replaces the administrator's, or on a worker the kubelet's.
	Kubeconfig string
	// IgnorePreflightErrors are names of checks whose failure is only a warning; "all" means each.
	IgnorePreflightErrors []string
	// DryRun shows what would change, and changes nothing.
	DryRun bool
	// Force replaces a file that was edited by hand.
	Force bool
	// InstallUnit asks the kubelet phase for a unit that runs it at each boot.
	InstallUnit bool
	// CheckFiles looks into the files of a provider that the caller knows from inside, by their names in the pod; may be
	// nil.
	CheckFiles func(provider string, files map[string][]byte) error
	// ReleaseBalancers gives back what our own provider holds of Services, as often as it is called. A cluster that leaves,
	// or goes to another provider, has to have it.
	ReleaseBalancers func(context.Context, kubernetes.Interface) error
	// Output is "text" or "json", for the progress of waiting.
	Output string
	// ImageBy is who has chosen the manager's image, where that is known from before; empty: it is found out.
	ImageBy v1alpha1.ImageBy
	// Operation is what the command decides about its run.
	Operation Operation
	// AllChecksHold says that no failed check can be made a warning.
	AllChecksHold bool
}

// Streams connect a run to its caller.
type Streams struct {
	// In answers the question that kubeadm reset asks.
	In io.Reader
	// Out takes the result: the node table, the join command, a dry run's diff.
	Out io.Writer
	// Err takes errors and hints.
	Err io.Writer
	// Env reads the environment.
	Env func(string) string
}

// Data is what every phase is given. It is made once; what is found out later is found out once, and kept.
type Data struct {
	Options
	Streams
	// Version is ccmadm's own.
	Version string
	// Machine is the one that the run works on; in a dry run it shows what it would do.
	Machine *machine.Machine
	// KubeadmFile is the user's kubeadm configuration with the flags folded in.
	KubeadmFile *kubeadm.File
	// KubeadmRest are the kubeadm flags that go beside --config.
	KubeadmRest []string
	// SkipPhases are kubeadm's phases that are left out.
	SkipPhases []string
	// Said is what the user said in this run: flags over the file.
	Said v1alpha1.CloudConfiguration

	Known     *Known
	PhaseName string
	// withoutServer is the phase's: no API server may be reached.
	WithoutServer bool
	// trial says that nobody sees the dry run: its differences are wanted by themselves.
	Trial bool
	ctx   context.Context // the workflow runner hands phases nothing but data
}

// Known is what a run finds out, each thing when it is first asked for, and never again.
type Known struct {
	settings    Once[*settings.Settings]
	state       Once[*State]
	Cluster     Once[*kubeadm.Cluster]
	Record      Once[*v1alpha1.Record]
	kubeadm     Once[*version.Version]
	metadata    Once[map[string]string]
	Files       Once[map[string][]byte] // the provider's
	Established Once[bool]
	Changed     bool                 // something was written, or in a dry run would be
	conflict    *apply.ConflictError // that a dry run has found
	Previews    map[string]Preview   // by a dry run of the phases of this run, by their names; nil: there was none
	AllTried    bool                 // a dry run of all phases of the list has gone through
	Journal     *journal.Journal     // of a run that has changed something, or is about to
}

// New reads the configuration that the options name. It changes nothing.
func New(ctx context.Context, m *machine.Machine, o Options, s Streams, version string) (*Data, error) {
	d := &Data{Options: o, Streams: s, Version: version, Machine: m, Known: &Known{}, ctx: ctx}
	d.Flags.Resolve(".")
	if errs := append(o.Flags.Validate(), settings.KnownProvider(&o.Flags)...); len(errs) > 0 {
		return nil, finding.Usagef("validate flags: %w", errs.ToAggregate())
	}
	if err := d.load(); err != nil {
		return nil, err
	}
	common := kubeadm.CommonFlags(o.Kubeadm) // a --dry-run behind the -- is for both
	d.DryRun = d.DryRun || common.DryRun
	d.IgnorePreflightErrors = slices.Concat(d.IgnorePreflightErrors, common.IgnorePreflightErrors)
	if d.SkipPhases = common.SkipPhases; d.SkipPhases == nil {
		d.SkipPhases = d.KubeadmFile.SkipPhases(d.Role)
	}
	if d.DryRun {
		d.Machine = m.DryRun(s.Out, kubeadm.MaskSecrets)
	}
	if err := d.Operation.Prepare(ctx, d); err != nil {
		return nil, err
	}
	return d, nil
}

// load takes the user's file; for a single phase without one, what an earlier phase has written.
func (d *Data) load() error {
	given := false
	d.Kubeadm.VisitAll(func(f *pflag.Flag) { given = given || f.Changed })
	path, data, err := d.configuration(given || d.Kubeadm.NArg() > 0)
	if err != nil {
		return err
	}
	file, err := kubeadm.Parse(path, data)
	if err != nil {
		return &finding.Error{Code: finding.ExitUsage, Err: err}
	}
	doc, line, found := file.TakeCloudConfiguration()
	if found {
		said, err := v1alpha1.DecodeCloudConfiguration(path, line, doc, settings.KnownProvider)
		if err != nil {
			return err
		}
		d.Said = *said
	}
	if d.Existing {
		if err := refuseWithout(d, found, file.Kinds()); err != nil {
			return err
		}
		if file, err = kubeadm.Parse("", nil); err != nil {
			return err
		}
	}
	if err := refuseForeignFile(d.ConfigFile, d.Role, file); err != nil {
		return err
	}
	d.Said.Override(&d.Flags)
	if d.KubeadmRest, err = kubeadm.FoldFlags(d.Role, file, d.Kubeadm); err != nil {
		return &finding.Error{Code: finding.ExitUsage, Err: err}
	}
	d.KubeadmFile = file
	return nil
}

// refuseForeignFile finds a file that is for another command, such as a JoinConfiguration for init, or a kind that is
// misspelled: kubeadm has the same words for it. A file with nothing but our own document is fine.
func refuseForeignFile(path string, role kubeadm.Role, file *kubeadm.File) error {
	kinds := file.Kinds()
	if path == "" || len(kinds) == 0 || file.HasConfiguration(role) {
		return nil
	}
	wanted := "InitConfiguration or ClusterConfiguration"
	if role == kubeadm.RoleJoin {
		wanted = "JoinConfiguration"
	}
	return finding.Usagef("read %s: no %s kind was found in it, only %s", path, wanted, strings.Join(kinds, ", ")).
		WithHint("`kubeadm config print %s-defaults` shows what kubeadm %s reads", role, role)
}

func (d *Data) configuration(flags bool) (path string, data []byte, err error) {
	if d.ConfigFile != "" {
		data, err = settings.ReadFile("configuration", d.ConfigFile)
		return d.ConfigFile, data, err
	}
	if !d.Single || flags || d.Existing {
		return "", nil, nil
	}
	if written, err := d.Machine.Exists(machine.KubeadmConfig); err != nil || !written {
		return "", nil, err
	}
	data, err = d.Machine.Read(machine.KubeadmConfig)
	return machine.KubeadmConfig, data, err
}

// Settings returns what holds on this machine. Whoever asks first pays.
func (d *Data) Settings(ctx context.Context) (*settings.Settings, error) {
	return d.Known.settings.Get(func() (*settings.Settings, error) { return d.Operation.Settings(ctx, d) })
}

// KubeadmVersion returns the version of the installed kubeadm.
func (d *Data) KubeadmVersion(ctx context.Context) (*version.Version, error) {
	return d.Known.kubeadm.Get(func() (*version.Version, error) { return kubeadm.Version(ctx, d.Machine) })
}

// Metadata asks the cloud's metadata service: where there is none, every question takes its time.
func (d *Data) Metadata(ctx context.Context, m *templates.Metadata) (map[string]string, error) {
	return d.Known.metadata.Get(func() (map[string]string, error) { return machine.AskMetadata(ctx, m) })
}

// InPhase returns the data for a phase by name.
func (d *Data) InPhase(phase string) *Data {
	c := *d
	c.PhaseName = phase
	return &c
}
