package agent

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is how long ago the machine has booted; a kernel that does not tell has booted long ago.
func sinceBoot() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return bootRecently
	}
	return time.Duration(t.Nano())
}
