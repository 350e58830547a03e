package inventory

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/config"
)

// Reason says in one word why a reading was rejected.
type Reason string

// The reasons.
const (
	Unreadable   Reason = "Unreadable"
	Malformed    Reason = "Malformed"
	Empty        Reason = "Empty"
	OtherSite    Reason = "OtherSite"
	OlderSerial  Reason = "OlderSerial"
	LostMachines Reason = "LostMachines"
)

// Rejection is why a reading did not become the inventory.
type Rejection struct {
	Reason Reason
	Err    error
}

func (r *Rejection) Error() string { return string(r.Reason) + ": " + r.Err.Error() }

// Unwrap returns the cause.
func (r *Rejection) Unwrap() error { return r.Err }

// Limits are what a reading must keep to.
type Limits struct {
	// Site that the inventory must be of; "" means that of the first one.
	Site string
	// MaxLossPercent of the machines in use may be missing or newly decommissioned from one reading to the next, but
	// always one.
	MaxLossPercent int
	// OwnCopies reports whether several processes read a file of their own each: then a reading that differs is only newer
	// if its serial says so. Nil means that they read the same.
	OwnCopies func() bool
}

// Store holds the last good inventory. It may be used concurrently, and what it
// returns never changes.
type Store struct {
	limits Limits
	now    func() time.Time

	mu        sync.Mutex
	last      *Inventory
	document  []byte // that last came from
	refused   []byte // that problem came from
	problem   *Rejection
	confirmed time.Time
	readings  int
	seen      map[string]sighting
	dropped   map[string][]corev1.Taint // by id
	term      int                       // 0 as long as that of the process before is not known
}

// sighting is when a machine was listed last.
type sighting struct {
	reading int
	at      time.Time
}

// NewStore returns an empty store.
func NewStore(limits Limits, now func() time.Time) *Store {
	return &Store{limits: limits, now: now, seen: map[string]sighting{}, dropped: map[string][]corev1.Taint{}}
}

// Status of a Store.
type Status struct {
	// Inventory is the last good one; nil before the first.
	Inventory *Inventory
	// Confirmed is when the source last said that; zero if it has not since the start.
	Confirmed time.Time
	// Readings that were good, since the start.
	Readings int
	// Problem is why the latest reading was rejected; nil if it was not.
	Problem *Rejection
}

// UpToDate reports whether the latest reading was good. The copy that an earlier process kept is no reading.
func (s Status) UpToDate() bool { return s.Problem == nil && !s.Confirmed.IsZero() }

// Current reports whether the inventory is up to date, and was confirmed within maxAge.
func (s *Store) Current(maxAge time.Duration) bool {
	status := s.Status()
	return status.UpToDate() && s.now().Sub(status.Confirmed) <= maxAge
}

// Status returns what is known.
func (s *Store) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Status{
		Inventory: s.last, Confirmed: s.confirmed, Readings: s.readings, Problem: s.problem,
	}
}

// Term is that of this process, as in its copy.
func (s *Store) Term() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.term
}

// lead sets the term.
func (s *Store) lead(term int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.term = term
}

// Restore takes the copy that an earlier process kept. Nodes are served from it,
// but it is no reading: from it alone nothing counts as gone.
func (s *Store) Restore(saved Saved) error {
	i, err := Decode(saved.Document)
	if err != nil {
		return err
	}
	if rejection := s.limits.check(nil, i); rejection != nil {
		return rejection
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last, s.document = i, saved.Document
		maps.Copy(s.dropped, saved.Dropped)
	}
	return nil
}

// Saved returns what the next process needs to go on.
func (s *Store) Saved() Saved {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Saved{Document: s.document, Dropped: maps.Clone(s.dropped)}
}

// Offer gives the store what a source has read, or the error that it met. It says
// whether the inventory is a new one, and why it was rejected, if it was.
func (s *Store) Offer(document []byte, err error) (changed bool, rejection *Rejection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.problem, s.refused = &Rejection{Unreadable, err}, nil
		return false, s.problem
	case s.refused != nil && bytes.Equal(document, s.refused):
		return false, s.problem
	case s.last != nil && bytes.Equal(document, s.document) && s.limits.check(nil, s.last) == nil:
		s.confirm()
		return false, nil
	}
	i, err := Decode(document)
	if err != nil {
		s.problem, s.refused = &Rejection{Malformed, err}, document
		return false, s.problem
	}
	if problem := s.limits.check(s.last, i); problem != nil {
		s.problem, s.refused = problem, document
		if problem.Reason == OlderSerial { // which the number of control planes decides, too
			s.refused = nil
		}
		return false, problem
	}
	if s.last != nil {
		s.drop(s.last, i)
	}
	s.last, s.document = i, document
	s.confirm()
	return true, nil
}

// drop notes taints that are no longer listed, and forgets those of machines that are not. The caller holds the lock.
func (s *Store) drop(last, next *Inventory) {
	listed := func(m *config.Machine, t corev1.Taint) bool {
		return slices.ContainsFunc(m.AllTaints(), func(other corev1.Taint) bool { return other.MatchTaint(&t) })
	}
	dropped := map[string][]corev1.Taint{}
	for n := range next.Machines {
		m := &next.Machines[n]
		before := s.dropped[m.ID]
		if was := last.ByID(m.ID); was != nil {
			before = slices.Concat(before, was.AllTaints())
		}
		if now := slices.DeleteFunc(slices.Clone(before), func(t corev1.Taint) bool { return listed(m, t) }); len(now) > 0 {
			dropped[m.ID] = now
		}
	}
	s.dropped = dropped
}

// Dropped returns the taints that a machine was listed with before, by this process or an earlier one.
func (s *Store) Dropped(id string) []corev1.Taint {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropped[id]
}

// TaintsGone notes that the machine's Node has none of those any more: one that comes back is another program's.
func (s *Store) TaintsGone(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.dropped, id)
}

// confirm notes a good reading. The caller holds the lock.
func (s *Store) confirm() {
	s.problem, s.refused = nil, nil
	s.confirmed = s.now()
	s.readings++
	for n := range s.last.Machines {
		s.seen[s.last.Machines[n].ID] = sighting{s.readings, s.confirmed}
	}
	for id, last := range s.seen {
		if last.reading == s.readings-1 { // missing since now, and not since the source was away
			s.seen[id] = sighting{last.reading, s.confirmed}
		}
	}
}

// Missing says in how many good readings in a row a machine has not been listed, and for how long, counted from the first of them. What this
// process never saw is missing since the first reading after it asked.
func (s *Store) Missing(id string) (readings int, since time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil || s.last.ByID(id) != nil {
		return 0, 0
	}
	last, ok := s.seen[id]
	if !ok {
		last = sighting{s.readings, s.now()}
		s.seen[id] = last
	}
	return s.readings - last.reading, s.now().Sub(last.at)
}

// check compares a reading with the one before, if there was one.
func (l Limits) check(last, next *Inventory) *Rejection {
	reject := func(reason Reason, format string, args ...any) *Rejection {
		return &Rejection{reason, fmt.Errorf(format, args...)}
	}
	site := l.Site
	if site == "" && last != nil {
		site = last.Metadata.Site
	}
	switch {
	case len(next.Machines) == 0:
		return reject(Empty, "it lists no machine")
	case site != "" && next.Metadata.Site != site:
		return reject(OtherSite, "it belongs to site %q, want %q", next.Metadata.Site, site)
	case last == nil:
		return nil
	case next.Metadata.Serial < last.Metadata.Serial:
		return reject(OlderSerial, "its serial is %d, and %d was already used: raise "+
			"metadata.serial", next.Metadata.Serial, last.Metadata.Serial)
	}
	if next.Metadata.Serial == last.Metadata.Serial && l.OwnCopies != nil && l.OwnCopies() {
		return reject(OlderSerial, "it differs, its serial is %d as before, and each control plane reads a file of its own: "+
			"raise metadata.serial with each change, or keep the inventory in a ConfigMap", next.Metadata.Serial)
	}
	lost, inUse := 0, 0 // of those that are not decommissioned already
	for n := range last.Machines {
		m := &last.Machines[n]
		if m.State == config.MachineDecommissioned {
			continue
		}
		inUse++
		if left := next.ByID(m.ID); left == nil || left.State == config.MachineDecommissioned {
			lost++
		}
	}
	if allowed := max(1, inUse*l.MaxLossPercent/100); lost > allowed {
		return reject(LostMachines, "%d of %d machines in use are missing or newly decommissioned, at most %d may be in one change: "+
			"decommission them in several changes, or raise inventory.maxLossPercent in cloud.conf", lost, inUse, allowed)
	}
	return nil
}
