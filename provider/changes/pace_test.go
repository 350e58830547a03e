package changes

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A change after a rest waits for nothing; changes without end make five passes a second, and leave half of the time to others.
func TestPace(t *testing.T) {
	var p Pace
	now := time.Now()
	pass := func(took time.Duration) time.Duration {
		began := now
		now = now.Add(took)
		pause, rest := p.After(began, now, took)
		if pause < took {
			t.Errorf("a pass of %s pauses %s", took, pause)
		}
		return pause + rest
	}
	const took = 5 * time.Millisecond
	for n := range MaxRow {
		if pause := pass(took); pause != took {
			t.Errorf("pass %d of a row pauses %s", n, pause)
		} else {
			now = now.Add(pause)
		}
	}
	for range 20 {
		if pause := pass(took); pause < MinPause || pause > MinPause+settle {
			t.Errorf("a pass of a long row pauses %s", pause)
		} else {
			now = now.Add(pause)
		}
	}
	if pause := pass(time.Second); pause != time.Second {
		t.Errorf("a pass of a second pauses %s", pause)
	}
	now = now.Add(4 * MinPause)
	for n := range 3 {
		if pause := pass(took); pause != took {
			t.Errorf("pass %d after a rest pauses %s", n, pause)
		}
	}
	now = now.Add(time.Hour)
	if pass(took); p.row != 1 {
		t.Errorf("after an hour it is pass %d of a row", p.row)
	}
}

// A change after a rest is looked at at once. Changes without end are, some times, and then five times a second; and where a look takes
// long, half of the time is left.
func TestPaced(t *testing.T) {
	for _, tt := range []struct {
		name         string
		takes, every time.Duration // a look, and between two changes
		least, most  int           // looks in a minute
		latest       time.Duration // after a change
	}{
		{name: "now and then", every: time.Second, least: 60, most: 60, latest: settle},
		{name: "as often as the pace", every: MinPause, least: 299, most: 300, latest: settle},
		{name: "without end", every: time.Millisecond, least: 250, most: MaxRow + 300, latest: MinPause + 2*settle},
		{name: "without end, and slow", every: time.Millisecond, takes: time.Second, least: 29, most: 31, latest: 2*time.Second + 2*settle},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				changed, poke := New()
				ctx, cancel := context.WithCancel(t.Context())
				var mu sync.Mutex
				looks, since, late := 0, time.Time{}, time.Duration(0)
				set := func() {
					mu.Lock()
					late = max(late, time.Since(since))
					since = time.Time{}
					looks++
					mu.Unlock()
					time.Sleep(tt.takes)
				}
				ended := make(chan struct{})
				go func() {
					Follow(ctx, t.Context(), changed, Paced(ctx, set))
					close(ended)
				}()
				for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(tt.every) {
					mu.Lock()
					if since.IsZero() {
						since = time.Now()
					}
					mu.Unlock()
					poke()
					synctest.Wait()
				}
				mu.Lock()
				if looks < tt.least || looks > tt.most || late > tt.latest {
					t.Errorf("%d looks, want %d to %d; the latest after %s, want %s at most", looks, tt.least, tt.most, late, tt.latest)
				}
				mu.Unlock()
				cancel()
				ending := time.Now()
				if <-ended; time.Since(ending) > tt.takes+settle { // a change may be seen before the end
					t.Errorf("it ends after %s", time.Since(ending))
				}
			})
		})
	}
}
