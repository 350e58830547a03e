package phases

import (
	"os"
	"sync"

	"github.com/ccmadm/ccmadm/api/finding"
)

// once keeps the first answer to a question, an error too: what several checks need and none gets is one failure.
type once[T any] struct {
	mu    sync.Mutex
	asked bool
	value T
	err   error
}

func (o *once[T]) get(ask func() (T, error)) (T, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.asked {
		o.value, o.err = ask()
		o.asked = true
	}
	return o.value, o.err
}

// readFile reads a file of the user's.
func readFile(what, path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, finding.Usagef("read %s: %w", what, err)
	}
	return data, nil
}
