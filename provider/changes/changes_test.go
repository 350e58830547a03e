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
			if looks > 2*round || looks < round { // a change that comes during the pause is looked at again
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
