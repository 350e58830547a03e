package dump

import (
	"errors"

	"github.com/vishvananda/netlink"
)

// attempts is how often a list is read.
const attempts = 5

// Whole reads a list, and once more where it has changed meanwhile: the kernel says so, and entries may be missing. One that changes each time
// is returned with the error [netlink.ErrDumpInterrupted].
func Whole[T any](list func() (T, error)) (found T, err error) {
	for range attempts {
		if found, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return found, err
}
