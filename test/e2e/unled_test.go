package e2e

import (
	"slices"
	"testing"
	"time"
)

// longestUnled is the longest time between two renewals without what of it nobody was answered in, and the longest of
// that.
func longestUnled(answers, renewals []time.Time) (unled, down time.Duration) {
	slices.SortFunc(answers, time.Time.Compare)
	slices.SortFunc(renewals, time.Time.Compare)
	for i := 1; i < len(renewals); i++ {
		silence := unanswered(answers, renewals[i-1], renewals[i])
		unled, down = max(unled, renewals[i].Sub(renewals[i-1])-silence), max(down, silence)
	}
	return unled, down
}

// unanswered is for how long between two moments there was no answer, where that is longer than a busy cluster is silent.
func unanswered(answers []time.Time, from, to time.Time) time.Duration {
	const silent = 2 * time.Second
	var sum time.Duration
	last := from
	count := func(at time.Time) {
		if pause := at.Sub(last); pause >= silent {
			sum += pause
		}
		last = at
	}
	for _, at := range answers {
		if at.After(from) && at.Before(to) {
			count(at)
		}
	}
	count(to)
	return sum
}

func TestLongestUnled(t *testing.T) {
	at := func(seconds ...float64) (list []time.Time) {
		for _, s := range seconds {
			list = append(list, time.Unix(0, int64(s*1e9)))
		}
		return list
	}
	// An API server that is down from 4 to 34, and a leader 6 s after that.
	answers := at(0, 1, 2, 3, 4, 34, 35, 36, 37, 38, 39, 40, 41)
	unled, down := longestUnled(answers, at(0, 2, 4, 40, 41))
	if unled != 6*time.Second || down != 30*time.Second {
		t.Errorf("nobody led for %s, nobody was answered for %s", unled, down)
	}
}
