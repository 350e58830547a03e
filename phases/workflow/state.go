package workflow

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/ccmadm/ccmadm/api/state"
	"github.com/ccmadm/ccmadm/machine"
)

// State is what has been done on this machine.
type State struct {
	state.LocalState
	// Known says that ccmadm wrote it down. A machine of an older version, or one that another tool made, has no such file.
	Known bool
}

// MachineState reads it.
func MachineState(env *Env) (*State, error) {
	return env.seen.state.Get(func() (*State, error) {
		data, err := env.Machine.Read(machine.StateFile)
		if errors.Is(err, fs.ErrNotExist) {
			return &State{}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read what was done on this machine: %w", err)
		}
		s, err := state.DecodeLocalState(machine.StateFile, data)
		if err != nil {
			return nil, err
		}
		return &State{*s, true}, nil
	})
}

// Write writes the state down, before or after what it speaks of.
func (s *State) Write(m *machine.Machine) error {
	data, err := s.Encode()
	if err != nil {
		return err
	}
	_, err = m.Files.Write(machine.File{Path: machine.StateFile, Data: data, Mode: 0o644})
	s.Known = true
	return err
}
