package serving

import (
	"sync"
	"time"
)

const (
	// changePause is the time from the first look at a requester's requests to the next that a change of its Node causes, and doubles with
	// each look up to changePauseMost: a kubelet may change its Node many times a second, and each look is some reads.
	changePause     = 100 * time.Millisecond
	changePauseMost = 10 * time.Second
)

// looks has when the requests of those that wait are looked at next if their Nodes change.
type looks struct {
	mu   sync.Mutex
	next map[string]look
}

// look is the next one, and how long it is after the last.
type look struct {
	at    time.Time
	pause time.Duration
}

// note is called with each look.
func (l *looks) note(requester string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	pause := min(max(changePause, 2*l.next[requester].pause), changePauseMost)
	l.next[requester] = look{now.Add(pause), pause}
}

// forget is for a requester that waits no more.
func (l *looks) forget(requester string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.next, requester)
}

// wait is how long a look waits that a change causes now.
func (l *looks) wait(requester string, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next[requester].at.Sub(now)
}
