package machine

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/ccmadm/ccmadm/api/state"
)

// Record returns what an earlier phase wrote down on this machine, or nil.
func (m *Machine) Record() (*state.Record, error) {
	data, err := m.Read(RecordFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // no record is a fine answer
	}
	if err != nil {
		return nil, fmt.Errorf("read the settings of an earlier phase: %w", err)
	}
	return state.DecodeRecord(RecordFile, data)
}
