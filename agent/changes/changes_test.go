package changes

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Changes that come at once are looked at once, those that come later are looked at again, and none after the end.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changed, poke := New()
		ctx, cancel := context.WithCancel(t.Context())
		looks := 0
		ended := make(chan struct{})
		go func() {
			Follow(ctx, t.Context(), changed, func() { looks++ })
			close(ended)
		}()
		for round := 1; round <= 2; round++ {
			for range 100 {
				poke()
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if looks > 2*round || looks < round { // a change that comes during the pause is looked at anew
				t.Errorf("round %d: looked %d times at 100 changes each", round, looks)
			}
		}
		cancel()
		<-ended
		before := looks
		poke()
		time.Sleep(time.Second)
		synctest.Wait()
		if looks != before {
			t.Error("it looks after its end")
		}
	})
}

// What works ends with an error: nothing is to be shown any more.
func TestFollow_WorkHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changed, poke := New()
		working, fail := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			Follow(t.Context(), working, changed, func() { t.Error("it looks") })
			close(ended)
		}()
		fail()
		<-ended
		poke()
		synctest.Wait()
	})
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
		{name: "as often as the pace", every: pace, least: 299, most: 300, latest: settle},
		{name: "without end", every: time.Millisecond, least: 250, most: free + 300, latest: pace + 2*settle},
		{name: "without end, and slow", every: time.Millisecond, takes: time.Second, least: 29, most: 31, latest: 2*time.Second + 2*settle},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				changed, poke := New()
				ctx, cancel := context.WithCancel(t.Context())
				looks, since, late := 0, time.Time{}, time.Duration(0)
				set := func() {
					late = max(late, time.Since(since))
					since = time.Time{}
					looks++
					time.Sleep(tt.takes)
				}
				ended := make(chan struct{})
				go func() {
					Follow(ctx, t.Context(), changed, Paced(ctx, set))
					close(ended)
				}()
				for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(tt.every) {
					if since.IsZero() {
						since = time.Now()
					}
					poke()
					synctest.Wait()
				}
				if looks < tt.least || looks > tt.most || late > tt.latest {
					t.Errorf("%d looks, want %d to %d; the latest after %s, want %s at most", looks, tt.least, tt.most, late, tt.latest)
				}
				cancel()
				ending := time.Now()
				if <-ended; time.Since(ending) > tt.takes+settle { // a change may be seen before the end
					t.Errorf("it ends after %s", time.Since(ending))
				}
			})
		})
	}
}
