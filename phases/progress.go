package phases

import (
	"fmt"
	"io"

	"github.com/ccmadm/ccmadm/phases/machine"
)

// Sayf prints a line of progress, as kubeadm does.
func (d *Data) Sayf(format string, args ...any) {
	fmt.Fprintf(d.progress(), "[%s] %s\n", d.phase, fmt.Sprintf(format, args...))
}

// progress is where lines for people go: not into the way of a program that reads JSON.
func (d *Data) progress() io.Writer {
	if d.Output == "json" || d.Living && d.DryRun { // of a diff, Out is what differs
		return d.Err
	}
	return d.Out
}

// write writes a file and says what became of it.
func (d *Data) write(f machine.File) error {
	_, err := written(d, f)
	return err
}

// written writes a file, too, and tells whether it was another one.
func written(d *Data, f machine.File) (changed bool, err error) {
	if changed, err = d.Machine.Files.Write(f); err != nil {
		return false, err
	}
	switch {
	case !changed:
		d.Sayf("%s unchanged", f.Path)
	case !d.DryRun:
		d.Sayf("%s written", f.Path)
	}
	d.known.changed = d.known.changed || changed
	return changed, nil
}
