//go:build !race

package l2

import "time"

const raceDetector = false

func within(limit time.Duration) time.Duration { return limit }
