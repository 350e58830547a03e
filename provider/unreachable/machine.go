package unreachable

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

const (
	// misses in a row make a machine silent: one may be a packet that was lost.
	misses = 3
	// leaseSlack is added to the time in which a kubelet renews its Lease, for an API server that is slow.
	leaseSlack = 1500 * time.Millisecond
	// shortest and longest time in which it does, whatever the Lease says.
	shortest, longest = 10 * time.Second, time.Minute
	// usualLease is what kubelets write in their Leases (leaseDurationSeconds), which they renew four times as often, and
	// up to 4 % later (k8s.io/component-helpers/apimachinery/lease).
	usualLease = 40 * time.Second
)

// machine is what this process knows of one.
type machine struct {
	answered bool // once, at least: one that never has cannot be asked so
	missed   int  // in a row

	lease     string // its resource version; empty: not known
	since     time.Time
	alive     bool // its kubelet has renewed its Lease since it fell silent
	withdrawn bool
}

// heard takes an answer.
func (m *machine) heard(a Answer) {
	switch a {
	case Present:
		*m = machine{answered: true}
	case Silent:
		m.missed++
	case Unknown:
		*m = machine{answered: m.answered, withdrawn: m.withdrawn}
	}
}

// gone says whether the machine is, by now. Its Lease is looked at from the first miss on, by the clock of this process:
// that of a machine may be wrong. One whose kubelet renews it lives, though it cannot be reached from here.
func (m *machine) gone(lease *coordinationv1.Lease, now time.Time) bool {
	if m.lease != lease.ResourceVersion {
		m.alive = m.alive || m.lease != ""
		m.lease, m.since = lease.ResourceVersion, now
	}
	return m.answered && !m.alive && m.missed >= misses && now.Sub(m.since) >= renewal(lease)
}

// renewal is the time in which a kubelet has renewed its Lease for certain.
func renewal(lease *coordinationv1.Lease) time.Duration {
	d := usualLease
	if s := lease.Spec.LeaseDurationSeconds; s != nil {
		d = time.Duration(*s) * time.Second
	}
	return min(max(d*26/100, shortest), longest) + leaseSlack
}
