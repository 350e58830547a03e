package workflow

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/machine"
)

// Sayf prints a line of progress, as kubeadm does.
func (env *Env) Sayf(format string, args ...any) {
	fmt.Fprintf(env.Progress(), "[%s] %s\n", env.Phase, fmt.Sprintf(format, args...))
}

// Event is an object of -o json and -o yaml beside those of Nodes: how far a change of a node has come.
type Event struct {
	Time time.Time `json:"time"`
	// Node is the one that is changed.
	Node string `json:"node"`
	// Step is Begun, Done or Failed, or Gone where there is no such Node any more.
	Step string `json:"step"`
	// Seconds is how long it took.
	Seconds float64 `json:"seconds,omitempty"`
	// Done is how many nodes are, Of how many there are to be, and SecondsLeft an estimate of when.
	Done        int     `json:"done,omitempty"`
	Of          int     `json:"of,omitempty"`
	SecondsLeft float64 `json:"secondsLeft,omitempty"`
	Error       string  `json:"error,omitempty"`
}

// Event writes an object for programs that follow a run.
func (env *Env) Event(e Event) {
	objects := env.Objects()
	if objects == nil {
		return
	}
	objects.Write(e)
	if err := objects.Close(); err != nil {
		env.Sayf("%v", err)
	}
}

// Objects writes to Out for programs, an object for each value; nil where people read it.
func (env *Env) Objects() *nodes.Objects {
	switch env.Output {
	case "json":
		return nodes.NewJSONLines(env.Out)
	case "yaml":
		return nodes.NewYAML(env.Out)
	}
	return nil
}

// Progress is where lines for people go: not into the way of a program that reads objects.
func (env *Env) Progress() io.Writer {
	if env.Objects() != nil || env.DryRun && (env.Existing || env.Preview) { // of a diff, Out is what differs
		return env.Err
	}
	return env.Out
}

// Write writes a file and says what became of it.
func (env *Env) Write(f machine.File) error {
	_, err := WriteChanged(env, f)
	return err
}

// WriteChanged writes a file, too, and tells whether it was another one.
func WriteChanged(env *Env, f machine.File) (changed bool, err error) {
	if changed, err = env.Machine.Files.Write(f); err != nil {
		return false, err
	}
	switch {
	case !changed:
		env.SayUnchanged(f.Path)
	case !env.DryRun:
		env.Sayf("%s written", f.Path)
	}
	env.NoteChange(changed)
	return changed, nil
}

// SharedWriter lets steps that are done at the same time write to one writer, a line after the other.
type SharedWriter struct {
	mu  sync.Mutex
	Out io.Writer
}

func (a *SharedWriter) Write(data []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.Out.Write(data)
}
