package workflow

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/phases/journal"
	"github.com/ccmadm/ccmadm/phases/settings"
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

// refuseWithout finds a file that says nothing of the existing cluster. Kubeadm's documents are for a machine's first
// day: the file of that day may be the one that is applied later.
func refuseWithout(r *Run, found bool, kinds []string) error {
	switch {
	case r.ConfigFile == "":
		return nil
	case !found:
		return finding.Usagef("read %s: no %s was found in it", r.ConfigFile, config.ConfigKind).
			WithHint("`ccmadm config print` shows one; without -f the cluster's record is what holds")
	case len(kinds) > 0:
		fmt.Fprintf(r.Err, "ccmadm: note: of %s, %s is not applied: kubeadm's documents are for init and join\n",
			r.ConfigFile, strings.Join(kinds, ", "))
	}
	return nil
}

// Run is one command of ccmadm at work. A phase is given a copy, whose pointers lead to what all phases share.
type Run struct {
	*Host
	Request
	// Command is what the journal calls the run, and Line what to run again after an interruption.
	Command, Line string
	// Operation is what the command decides about this run.
	Operation Operation
	// Said is what the user said in this run: flags over the file.
	Said config.CloudConfiguration
	// KubeadmRest are the kubeadm flags that go beside --config.
	KubeadmRest []string
	// SkipPhases are kubeadm's phases that are left out.
	SkipPhases []string

	Cache  *Cache
	Course *Course
	ctx    context.Context // the workflow runner hands phases nothing but data
}

// Cache has what a run finds out about its cluster, each thing when it is first asked for, and never again.
type Cache struct {
	settings    Once[*settings.Settings]
	Cluster     Once[*kubeadm.Cluster]
	Record      Once[*state.Record]
	Files       Once[map[string][]byte] // the provider's
	Established Once[bool]
}

// Course is how far a run has come.
type Course struct {
	Previews map[string]Preview // by a dry run of the phases of this run, by their names; nil: there was none
	AllTried bool               // a dry run of all phases of the list has gone through
	Journal  *journal.Journal   // of a run that has changed something, or is about to
	// CertificateKey is that of the certificates which kubeadm has uploaded in this run; empty: it has uploaded none, or did not
	// print it. It opens the cluster's keys, so it is kept nowhere else: a phase in a process of its own goes without.
	CertificateKey string
}

// Changes tells whether a dry run has found a phase that changes something.
func (c *Course) Changes() bool {
	for _, found := range c.Previews {
		if found.Change != "" {
			return true
		}
	}
	return false
}

// New reads the configuration that the inputs name. It changes nothing.
func New(ctx context.Context, m *machine.Machine, in Inputs, s Streams, version string) (*Run, error) {
	if errs := append(in.Flags.Validate(), settings.KnownProvider(&in.Flags)...); len(errs) > 0 {
		return nil, finding.Usagef("validate flags: %w", errs.ToAggregate())
	}
	in.Flags.Resolve(".")
	if in.Kubeadm == nil {
		in.Kubeadm = kubeadm.Flags(in.Role)
	}
	common := kubeadm.CommonFlags(in.Kubeadm) // a --dry-run behind the -- is for both
	in.DryRun = in.DryRun || common.DryRun
	in.IgnorePreflightErrors = slices.Concat(in.IgnorePreflightErrors, common.IgnorePreflightErrors)
	r := NewRun(m, in, s, version)
	r.ctx = ctx
	if err := r.load(); err != nil {
		return nil, err
	}
	if r.SkipPhases = common.SkipPhases; r.SkipPhases == nil {
		r.SkipPhases = r.KubeadmFile.SkipPhases(r.Role)
	}
	if err := r.Operation.Prepare(ctx, r); err != nil {
		return nil, err
	}
	return r, nil
}

// NewRun returns a run that has read no configuration yet.
func NewRun(m *machine.Machine, in Inputs, s Streams, version string) *Run {
	env := NewEnv(m, s, version, in.DryRun)
	env.Kubeconfig, env.Output, env.Force, env.Existing, env.Quiet = in.Kubeconfig, in.Output, in.Force, in.Existing, in.Quiet
	return &Run{
		Host:    &Host{Env: env, Role: in.Role, answers: &answers{}},
		Request: in.Request, Command: in.Command, Line: in.Line, Operation: in.Operation, Cache: &Cache{}, Course: &Course{},
	}
}

// inputs are those of a run like this one, as it is by now.
func (r *Run) inputs() Inputs {
	return Inputs{
		Role: r.Role, Existing: r.Existing, Command: r.Command, Line: r.Line, Operation: r.Operation, Kubeconfig: r.Kubeconfig,
		DryRun: r.DryRun, Force: r.Force, Quiet: r.Quiet, Output: r.Output, Request: r.Request,
	}
}

// load takes the user's file; for a single phase without one, what an earlier phase has written.
func (r *Run) load() error {
	given := false
	r.Kubeadm.VisitAll(func(f *pflag.Flag) { given = given || f.Changed })
	path, data, err := r.configuration(given || r.Kubeadm.NArg() > 0)
	if err != nil {
		return err
	}
	file, err := kubeadm.Parse(path, data)
	if err != nil {
		return &finding.Error{Code: finding.ExitUsage, Err: err}
	}
	doc, line, found := file.TakeCloudConfiguration()
	if found {
		said, err := config.DecodeCloudConfiguration(path, line, doc, settings.KnownProvider)
		if err != nil {
			return err
		}
		r.Said = *said
	}
	if r.Existing {
		if err := refuseWithout(r, found, file.Kinds()); err != nil {
			return err
		}
		if file, err = kubeadm.Parse("", nil); err != nil {
			return err
		}
	}
	if err := refuseForeignFile(r.ConfigFile, r.Role, file); err != nil {
		return err
	}
	r.Said.Override(&r.Flags)
	if r.KubeadmRest, err = kubeadm.FoldFlags(r.Role, file, r.Kubeadm); err != nil {
		return &finding.Error{Code: finding.ExitUsage, Err: err}
	}
	r.KubeadmFile = file
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

func (r *Run) configuration(flags bool) (path string, data []byte, err error) {
	if r.ConfigFile != "" {
		data, err = settings.ReadFile("configuration", r.ConfigFile)
		return r.ConfigFile, data, err
	}
	if !r.Single || flags || r.Existing {
		return "", nil, nil
	}
	if written, err := r.Machine.Exists(machine.KubeadmConfig); err != nil || !written {
		return "", nil, err
	}
	data, err = r.Machine.Read(machine.KubeadmConfig)
	return machine.KubeadmConfig, data, err
}

// Settings returns what holds on this machine. Whoever asks first pays.
func (r *Run) Settings(ctx context.Context) (*settings.Settings, error) {
	return r.Cache.settings.Get(func() (*settings.Settings, error) { return r.Operation.Settings(ctx, r) })
}

// GoesBy has a run go by the record that another one has shown to the user. If it was changed since, [Begin] refuses.
func (r *Run) GoesBy(ctx context.Context, shown *Run) {
	_, _ = r.Cache.Record.Get(func() (*state.Record, error) { return shown.Operation.Record(ctx, shown) }) // an error is kept, too
}

// InPhase returns a copy for a phase by name.
func (r *Run) InPhase(phase string) *Run {
	c := *r
	c.Host = r.Host.InPhase(phase)
	return &c
}

// Afresh returns a copy that has found out nothing yet, and asks everything again.
func (r *Run) Afresh() *Run {
	c := r.InPhase(r.Phase)
	c.seen, c.answers = &seen{}, &answers{}
	c.Cache, c.Course = &Cache{}, &Course{}
	return c
}

// Together returns a copy for steps that are done at the same time, which write a line after the other.
func (r *Run) Together() *Run {
	c, h := *r, *r.Host
	h.Env = r.Env.Together()
	c.Host = &h
	return &c
}
