package e2e

import (
	"slices"
	"testing"
	"time"
)

// longestUnled is the longest time between two renewals without the longest in it in which nobody was answered, and
// that.
func longestUnled(answers, renewals []time.Time) (unled, down time.Duration) {
	slices.SortFunc(answers, time.Time.Compare)
	slices.SortFunc(renewals, time.Time.Compare)
	for i := 1; i < len(renewals); i++ {
		hole := longestHole(answers, renewals[i-1], renewals[i])
		unled, down = max(unled, renewals[i].Sub(renewals[i-1])-hole), max(down, hole)
	}
	return unled, down
}

// longestHole is the longest time without an answer between two moments, if it is longer than a busy cluster is silent.
func longestHole(answers []time.Time, from, to time.Time) time.Duration {
	const silent = 2 * time.Second
	var longest time.Duration
	last := from
	for _, at := range answers {
		if at.Before(from) || at.After(to) {
			continue
		}
		longest, last = max(longest, at.Sub(last)), at
	}
	if longest = max(longest, to.Sub(last)); longest < silent {
		return 0
	}
	return longest
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
