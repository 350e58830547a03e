package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Lock holds a directory of the machine until it is released, or this process ends, however it does. While another
// process holds it, it waits, and calls waiting once. Nothing is written.
func (m *Machine) Lock(ctx context.Context, dir string, waiting func()) (release func(), err error) {
	held, err := os.Open(m.Path(dir))
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	told := false
	err = wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(context.Context) (bool, error) {
		err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err == nil, err
		}
		if !told {
			told = true
			waiting()
		}
		return false, nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), held.Close())
	}
	return func() { _ = held.Close() }, nil
}
