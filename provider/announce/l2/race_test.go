//go:build race

package l2

import "time"

const raceDetector = true

// within is a limit for programs that are slowed by the race detector, beside others: make long has the limits themselves.
func within(limit time.Duration) time.Duration { return 8 * limit }
