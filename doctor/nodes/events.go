package nodes

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// RecentEvent is for how long an Event is taken for what is so now.
const RecentEvent = 15 * time.Minute

// LastSeen is when an Event happened last. Those of one occurrence have only the time of it.
func LastSeen(e *corev1.Event) time.Time {
	if e.LastTimestamp.IsZero() {
		return e.EventTime.Time
	}
	return e.LastTimestamp.Time
}
