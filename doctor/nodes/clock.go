package nodes

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// Kubelet is what the API server calls a kubelet that has written something.
const Kubelet = "kubelet"

// written is when a kubelet has renewed its Lease last, by the API server's clock, in whole seconds. Zero: it does not
// tell.
func written(l *coordinationv1.Lease) time.Time {
	for _, m := range l.ManagedFields {
		if m.Manager == Kubelet && m.Time != nil {
			return m.Time.Time
		}
	}
	return time.Time{}
}

// heard is when a kubelet has renewed its Lease last: by the API server's clock, or by the machine's own where that is
// all there is.
func heard(l *coordinationv1.Lease) time.Time {
	if at := written(l); !at.IsZero() {
		return at
	}
	return renewTime(l)
}

// ClockAhead is by how much the clock of a kubelet's machine was before the API server's when it has renewed its Lease
// last; negative: behind. Not known where the API server does not tell when it was asked.
func ClockAhead(l *coordinationv1.Lease) (ahead time.Duration, known bool) {
	at, renewed := written(l), renewTime(l)
	if at.IsZero() || renewed.IsZero() {
		return 0, false
	}
	const halfOfItsUnit = time.Second / 2 // the API server's time has whole seconds
	return renewed.Sub(at.Add(halfOfItsUnit)), true
}
