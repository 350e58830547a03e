package images

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
)

// State is what is known of an image in its registry.
type State string

// The states.
const (
	StateThere        State = "there"
	StateMissing      State = "missing"
	StateArchitecture State = "missing architecture"
	// StateUnknown says that the registry cannot be asked: it refuses, limits, fails or does not answer in time.
	StateUnknown State = "cannot be asked"
)

// Status is an image for one architecture.
type Status struct {
	Image        string `json:"image"`
	Architecture string `json:"architecture"`
	State        State  `json:"state"`
	// Reason is the registry's answer, or why there is none.
	Reason string `json:"reason,omitempty"`
}

// registryAnswer is how long the registries of one reference may take for all that is asked of them.
const registryAnswer = 30 * time.Second

// Verify asks for each reference and architecture whether the source has it.
func Verify(ctx context.Context, from Source, refs, archs []string) []Status {
	answers := make([][]Status, len(refs))
	var all sync.WaitGroup
	for i, ref := range refs {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, registryAnswer)
			defer cancel()
			answers[i] = verify(ctx, from, ref, archs)
		})
	}
	all.Wait()
	var list []Status
	for _, a := range answers {
		list = append(list, a...)
	}
	return list
}

func verify(ctx context.Context, from Source, ref string, archs []string) []Status {
	r, err := resolve(ctx, from, ref, archs)
	list := make([]Status, len(archs))
	for i, arch := range archs {
		list[i] = Status{Image: ref, Architecture: arch, State: StateThere}
		switch {
		case errors.Is(err, ErrMissing):
			list[i].State, list[i].Reason = StateMissing, finding.Clean(err.Error())
		case err != nil:
			list[i].State, list[i].Reason = StateUnknown, finding.Clean(err.Error())
		case len(r.lacks([]string{arch})) > 0:
			list[i].State = StateArchitecture
		}
	}
	return list
}

// joined is every failure, one a line.
func joined(failed []error) error {
	return fmt.Errorf("%w", errors.Join(failed...))
}
