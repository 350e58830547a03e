package failover

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

const (
	// misses in a row make a machine silent: one may be a packet that was lost.
	misses = 3
	// again is when what could not be done, or was not to be done yet, is tried again.
	again = 5 * time.Second
)

// machine is what this process knows of one.
type machine struct {
	answered bool // once, at least: one that never has cannot be asked so
	missed   int  // in a row

	lease     string // its version when it was first seen since the machine fell silent; empty: not known
	since     time.Time
	alive     bool // its kubelet has renewed it since
	withdrawn bool // all its endpoints are
	told      bool // in an Event
	tried     time.Time
}

// heard takes an answer. Only one of the machine itself makes good what was seen of it.
func (m *machine) heard(a Answer) {
	switch a {
	case Present:
		*m = machine{answered: true}
	case Silent:
		m.missed++
	case Unknown:
		m.missed, m.lease = 0, ""
	}
}

// gone reports whether the machine is, and is to be seen to. Its Lease counts from the first look after it fell silent, by
// the clock of this process: that of a machine may be wrong. Asked is when the look began, looked when it ended. A
// machine whose kubelet renews its Lease lives, though it cannot be reached from here.
func (m *machine) gone(lease *coordinationv1.Lease, asked, looked time.Time) bool {
	if lease == nil {
		m.lease = ""
		return false
	}
	if m.lease != lease.ResourceVersion {
		m.alive = m.alive || m.lease != ""
		m.lease, m.since = lease.ResourceVersion, looked
	}
	return m.answered && !m.alive && m.missed >= misses && asked.Sub(m.since) >= renewal(lease) &&
		!m.withdrawn && asked.Sub(m.tried) >= again
}
