package workflow

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/ccmadm/ccmadm/machine"
)

// Sayf prints a line of progress, as kubeadm does.
func (d *Data) Sayf(format string, args ...any) {
	fmt.Fprintf(d.Progress(), "[%s] %s\n", d.PhaseName, fmt.Sprintf(format, args...))
}

// Event is a line of -o json beside those of Nodes: how far a change of a node has come.
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

// Event writes a line for programs that follow a run.
func (d *Data) Event(e Event) {
	if d.Output != "json" {
		return
	}
	data, err := json.Marshal(e)
	if err != nil {
		d.Sayf("%v", err)
		return
	}
	fmt.Fprintf(d.Out, "%s\n", data)
}

// Progress is where lines for people go: not into the way of a program that reads JSON.
func (d *Data) Progress() io.Writer {
	if d.Output == "json" || d.DryRun && (d.Existing || d.Trial) { // of a diff, Out is what differs
		return d.Err
	}
	return d.Out
}

// Write writes a file and says what became of it.
func (d *Data) Write(f machine.File) error {
	_, err := WriteChanged(d, f)
	return err
}

// WriteChanged writes a file, too, and tells whether it was another one.
func WriteChanged(d *Data, f machine.File) (changed bool, err error) {
	if changed, err = d.Machine.Files.Write(f); err != nil {
		return false, err
	}
	switch {
	case !changed:
		d.Sayf("%s unchanged", f.Path)
	case !d.DryRun:
		d.Sayf("%s written", f.Path)
	}
	d.Known.Changed = d.Known.Changed || changed
	return changed, nil
}

// Together returns the data for steps that are done at the same time, which write a line after the other.
func (d *Data) Together() *Data {
	c := *d
	c.Out, c.Err = &SharedWriter{Out: d.Out}, &SharedWriter{Out: d.Err}
	return &c
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
