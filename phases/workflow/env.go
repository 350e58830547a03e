package workflow

import (
	"fmt"
	"io"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/manifests/apply"
)

// Streams connect a run to its caller.
type Streams struct {
	// In answers the question that kubeadm reset asks.
	In io.Reader
	// Out takes the result: the node table, the join command, a dry run's diff.
	Out io.Writer
	// Err takes errors and hints.
	Err io.Writer
	// Getenv reads the environment.
	Getenv func(string) string
	// LookupEnv tells a variable that is set and empty from one that is not set. Nil: none is set and empty.
	LookupEnv func(string) (string, bool)
}

// IsSet tells whether a variable of the environment is set, be it empty.
func (s Streams) IsSet(name string) bool {
	if s.LookupEnv == nil {
		return s.Getenv(name) != ""
	}
	_, is := s.LookupEnv(name)
	return is
}

// Env is where a run works and how: its machine, its streams, its way to the API server. The machine and the appliers of a
// dry run show what they would do.
type Env struct {
	Streams
	// Version is ccmadm's own.
	Version string
	// Machine is the one that the run works on.
	Machine *machine.Machine
	// Phase is the prefix of what the run prints.
	Phase string
	// Kubeconfig replaces the administrator's, or on a worker the kubelet's.
	Kubeconfig string
	// Output is "text", "json" or "yaml", for the progress of waiting.
	Output string
	// DryRun says that the run changes nothing.
	DryRun bool
	// Force replaces a file that was edited by hand, and takes back fields that others have changed.
	Force bool
	// Existing says that the machine is a control plane of an existing cluster, which has a record.
	Existing bool
	// Quiet leaves out lines about files and objects that stay as they are. They are counted.
	Quiet bool
	// Preview says that the dry run goes before a run, and that nothing of it is shown.
	Preview bool
	// WithoutServer says that the phase may reach no API server.
	WithoutServer bool

	seen *seen // by all phases of a run
}

// seen is what the phases of a run have found and done on its machine.
type seen struct {
	state    Once[*State]
	changed  bool                 // something was written, or in a dry run would be
	ran      bool                 // kubeadm was run, and has its own words about what it changed
	same     int                  // files and objects that stay as they are
	conflict *apply.ConflictError // that a dry run has found
}

// NewEnv returns that of a run on a machine, or of a dry run.
func NewEnv(m *machine.Machine, s Streams, version string, dryRun bool) *Env {
	if dryRun {
		m = m.DryRun(s.Out, kubeadm.MaskSecrets)
	}
	return &Env{Streams: s, Version: version, Machine: m, DryRun: dryRun, seen: &seen{}}
}

// InPhase returns a copy for a phase by name.
func (env *Env) InPhase(phase string) *Env {
	c := *env
	c.Phase = phase
	return &c
}

// Together returns a copy for steps that are done at the same time, which write a line after the other.
func (env *Env) Together() *Env {
	c := *env
	c.Out, c.Err = &SharedWriter{Out: env.Out}, &SharedWriter{Out: env.Err}
	return &c
}

// Refusal is why a dry run would end without writing anything; nil: it would not.
func (env *Env) Refusal() error {
	if c := env.seen.conflict; c != nil && !env.Force {
		return finding.Refusedf("%w", c).WithHint("ccmadm diff shows the difference; --force takes the fields back. Nothing was changed")
	}
	return nil
}

// Changed tells whether the run has changed something, or in a dry run would have.
func (env *Env) Changed() bool { return env.seen.changed }

// SayUnchanged tells that a file or an object stays as it is.
func (env *Env) SayUnchanged(what string) {
	env.seen.same++
	if !env.Quiet {
		env.Sayf("%s unchanged", what)
	}
}

// sayNothingChanged is the one line of a quiet run that has changed nothing.
func (env *Env) sayNothingChanged() {
	if !env.Quiet || env.seen.same == 0 || env.seen.changed || env.seen.ran {
		return
	}
	count := fmt.Sprintf("%d files and objects", env.seen.same)
	if env.seen.same == 1 {
		count = "1 file or object"
	}
	fmt.Fprintf(env.Progress(), "unchanged: %s (--verbose lists them)\n", count)
}

// NoteChange remembers that something was changed, or in a dry run would be.
func (env *Env) NoteChange(changed bool) { env.seen.changed = env.seen.changed || changed }
