package workflow

import (
	"sync"
)

// Once keeps the first answer to a question, an error too: what several checks need and none gets is one failure.
type Once[T any] struct {
	mu    sync.Mutex
	asked bool
	value T
	err   error
}

// Get returns the first answer, an error too, and asks only for that one.
func (o *Once[T]) Get(ask func() (T, error)) (T, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.asked {
		o.value, o.err = ask()
		o.asked = true
	}
	return o.value, o.err
}
