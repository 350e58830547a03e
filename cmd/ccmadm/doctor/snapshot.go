package doctor

import (
	"fmt"
	"io"
	"os"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
	"github.com/ccmadm/ccmadm/doctor/bundle"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
)

// readSnapshot reads the doctor's input from a file of --save or from a support bundle.
func readSnapshot(name string, in io.Reader) (*diagnosis.Snapshot, error) {
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, finding.Usagef("read the snapshot: %w", err)
		}
		defer file.Close() //nolint:errcheck // it was only read
		in = file
	}
	in, err := bundle.Snapshot(in)
	if err != nil {
		return nil, finding.Usagef("read %s: %w", name, err).WithHint("ccmadm support-bundle writes an archive, ccmadm doctor --save FILE a snapshot")
	}
	snapshot, err := diagnosis.Read(name, in)
	if err != nil {
		return nil, finding.Usagef("%w", err).WithHint("ccmadm doctor --save FILE writes one")
	}
	return snapshot, nil
}

// saveSnapshot writes a file that only its owner reads: it has no credentials, but names and addresses.
func saveSnapshot(name string, snapshot *diagnosis.Snapshot) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return finding.Errorf("save the snapshot: %w", err)
	}
	err = snapshot.Write(file)
	if closed := file.Close(); err == nil && closed != nil {
		err = fmt.Errorf("save the snapshot: %w", closed)
	}
	return usage.Observed(err)
}
