package serving

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

const (
	// changePause is the time from the first look at a requester's requests to the next that a change of its Node causes, and doubles with
	// each look up to changePauseMost: a kubelet may change its Node many times a second, and each look is some reads.
	changePause     = 100 * time.Millisecond
	changePauseMost = 10 * time.Second
)

// looks has when the requests of those that wait are looked at next if their Nodes change.
type looks struct {
	pauses workqueue.TypedRateLimiter[string]

	mu   sync.Mutex
	next map[string]time.Time
}

func newLooks() *looks {
	return &looks{
		pauses: workqueue.NewTypedItemExponentialFailureRateLimiter[string](changePause, changePauseMost), next: map[string]time.Time{},
	}
}

// note is called with each look.
func (l *looks) note(requester string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next[requester] = now.Add(l.pauses.When(requester))
}

// forget is for a requester that waits no more.
func (l *looks) forget(requester string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pauses.Forget(requester)
	delete(l.next, requester)
}

// wait is how long a look waits that a change causes now.
func (l *looks) wait(requester string, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next[requester].Sub(now)
}
