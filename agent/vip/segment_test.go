package vip

import (
	"errors"
	"testing"
	"time"
)

// Before the first look a machine counts as one that cannot answer. Once it can, it drains after a second without.
func TestHolder_Looked(t *testing.T) {
	h, told := holderOf(t, "a", "b")
	now := time.Now()
	h.now = func() time.Time { return now }
	h.healthy, h.cut = true, errors.New("no look yet")
	h.set(h.view())
	noCarrier := errors.New("no carrier")
	for i, look := range []struct {
		after    time.Duration
		err      error
		draining bool
	}{
		{err: noCarrier, draining: true},
		{err: nil},
		{err: noCarrier},
		{after: 900 * time.Millisecond, err: noCarrier},
		{after: 50 * time.Millisecond, err: nil},
		{after: 50 * time.Millisecond, err: noCarrier},
		{after: 950 * time.Millisecond, err: noCarrier},
		{after: 50 * time.Millisecond, err: noCarrier, draining: true},
		{after: time.Hour, err: noCarrier, draining: true},
		{err: nil},
	} {
		now = now.Add(look.after)
		h.looked(look.err)
		if told.Draining != look.draining || (h.state() != nil) != look.draining {
			t.Errorf("look %d: the announcer was told draining %t, and /readyz says %v", i, told.Draining, h.state())
		}
	}
}
