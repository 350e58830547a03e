package serving

import (
	"sync"
	"time"
)

// changePause is the time from one look at a requester's requests to the next that a change of its Node causes: a kubelet may change its
// Node many times a second, and each look is some reads.
const changePause = 5 * time.Second

// looks has when the requests of those that wait were looked at last.
type looks struct {
	mu   sync.Mutex
	last map[string]time.Time
}

func (l *looks) note(requester string, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last[requester] = at
}

// forget is for a requester that waits no more.
func (l *looks) forget(requester string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.last, requester)
}

// pause is how long a look waits that a change causes now.
func (l *looks) pause(requester string, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return changePause - now.Sub(l.last[requester])
}
