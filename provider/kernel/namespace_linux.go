package kernel

import (
	"fmt"
	"runtime"

	"github.com/vishvananda/netns"
)

// Enter calls f on a thread in the network namespace: sockets stay in the one they were made in. None: where the
// process is.
func Enter(namespace netns.NsHandle, f func() error) error {
	if !namespace.IsOpen() {
		return f()
	}
	runtime.LockOSThread()
	before, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("get network namespace: %w", err)
	}
	defer func() {
		if netns.Set(before) == nil {
			runtime.UnlockOSThread() // else the thread ends with this goroutine, and nobody else gets it
		}
		_ = before.Close() // it was for this
	}()
	if err := netns.Set(namespace); err != nil {
		return fmt.Errorf("enter network namespace: %w", err)
	}
	return f()
}
