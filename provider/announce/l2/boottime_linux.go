package l2

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmadm/ccmadm/provider/announce/quorum"
)

// bootTime is the clock that goes on while the machine sleeps: a Node that was suspended has nothing any more when it
// wakes up. Go's own clock stands still meanwhile.
func bootTime() quorum.Instant {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		panic("this kernel has no CLOCK_BOOTTIME, which requires Linux 2.6.39")
	}
	return time.Duration(t.Nano())
}
