package workflow

import (
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
)

// Of a wait nothing is said for quietWait, and then a line each tellEvery.
const quietWait, tellEvery = 2 * time.Second, 10 * time.Second

// Waiting tells people how a wait goes on, and how much time it has left.
type Waiting struct {
	env       *Env
	what      string
	end, next time.Time
}

// Waiting begins a wait for something, of at most that long. What it tells is told by Still, in the caller's own turn.
func (env *Env) Waiting(what string, atMost time.Duration) *Waiting {
	now := time.Now()
	return &Waiting{env, what, now.Add(atMost), now.Add(quietWait)}
}

// Still is called each time that what is waited for is not there yet, with the reason, which may be nil.
func (w *Waiting) Still(why error) { w.StillFor(time.Until(w.end), why) }

// StillFor is Still where the limit depends on the reason: left is the time until then.
func (w *Waiting) StillFor(left time.Duration, why error) {
	now := time.Now()
	left = left.Round(time.Second)
	if now.Before(w.next) || left <= 0 {
		return
	}
	w.next = now.Add(tellEvery)
	because := ""
	if why != nil {
		because = ", because " + finding.Clean(why.Error())
	}
	w.env.Sayf("waiting for %s, %s left%s", w.what, left, because)
}
