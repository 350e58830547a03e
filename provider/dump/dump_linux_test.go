package dump

import (
	"errors"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestWhole(t *testing.T) {
	broken, interrupted := errors.New("broken"), netlink.ErrDumpInterrupted
	for _, tt := range []struct {
		name  string
		errs  []error // of each attempt
		err   error
		found int
	}{
		{"nothing changes", []error{nil}, nil, 1},
		{"it changes twice", []error{interrupted, interrupted, nil}, nil, 3},
		{"it changes always", slices.Repeat([]error{interrupted}, attempts), interrupted, attempts},
		{"another error", []error{broken}, broken, 1},
		{"another error after a change", []error{interrupted, broken}, broken, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			calls := 0
			found, err := Whole(func() (int, error) {
				calls++
				return calls, tt.errs[calls-1]
			})
			if found != tt.found || !errors.Is(err, tt.err) || calls != len(tt.errs) {
				t.Errorf("got %d, %v after %d calls, want %d, %v after %d", found, err, calls, tt.found, tt.err, len(tt.errs))
			}
		})
	}
}
