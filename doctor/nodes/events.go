package nodes

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// IsRecent tells whether an Event is about what is so now of an object, and not of one that had the name before.
func IsRecent(e *corev1.Event, now time.Time, kind string, o metav1.Object) bool {
	of, seen := &e.InvolvedObject, LastSeen(e)
	return of.Kind == kind && of.Namespace == o.GetNamespace() && of.Name == o.GetName() &&
		now.Sub(seen) < RecentEvent && !seen.Before(o.GetCreationTimestamp().Time)
}

// Warned quotes the latest warning about an object, to be put behind what is known of it: where no rule says why something is so, the program
// that tried often does. Anybody who may write Events may have written it, so it is no more than a quotation. Empty: there is none that is
// recent.
func Warned(all []corev1.Event, now time.Time, kind string, o metav1.Object) string {
	var last *corev1.Event
	for i := range all {
		e := &all[i]
		if e.Type != corev1.EventTypeNormal && IsRecent(e, now, kind, o) && (last == nil || LastSeen(e).After(LastSeen(last))) {
			last = e
		}
	}
	if last == nil {
		return ""
	}
	return "; its last warning is " + Shorten(last.Reason+": "+last.Message)
}
