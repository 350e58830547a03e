package inventory

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// listing is an inventory of n machines.
func listing(serial, n int) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: ccmadm.dev/v1alpha1\nkind: Inventory\nmetadata: {site: ber1, serial: "+
		"%d}\nmachines:\n", serial)
	for i := range n {
		fmt.Fprintf(&b, "- id: m%d\n", i)
	}
	return []byte(b.String())
}

// tombstones decommissions the first n machines of a listing.
func tombstones(document []byte, n int) []byte {
	for i := range n {
		machine := fmt.Appendf(nil, "- id: m%d\n", i)
		document = bytes.Replace(document, machine, append(machine, "  state: decommissioned\n"...), 1)
	}
	return document
}

// clock is moved by hand.
type clock struct{ at time.Time }

func (c *clock) now() time.Time       { return c.at }
func (c *clock) pass(d time.Duration) { c.at = c.at.Add(d) }
func newClock() *clock                { return &clock{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }
func newTestStore() (store *Store, c *clock) {
	c = newClock()
	return NewStore(Limits{MaxLossPercent: 20}, c.now), c
}

// Whatever comes instead of an inventory, the last good one stays.
func TestStore_Rejects(t *testing.T) {
	for _, tt := range []struct {
		name     string
		document []byte
		err      error
		want     Reason
		wantErr  string
	}{
		{"the file is gone", nil, errors.New("no such file"), Unreadable, "no such file"},
		{"a page of HTML", []byte("<html>502</html>"), nil, Malformed, "read Inventory"},
		{"an empty file", []byte{}, nil, Malformed, "nothing in it"},
		{"cut off", listing(5, 10)[:60], nil, Malformed, "Inventory"},
		{
			"no machine", []byte(strings.Replace(string(listing(5, 0)), "machines:", "machines: []", 1)), nil, Empty,
			"no machine",
		},
		{"an older one", listing(4, 10), nil, OlderSerial, "serial is 4, and 5 was already used"},
		{"of another site", []byte(strings.Replace(string(listing(6, 10)), "ber1", "ham1", 1)), nil, OtherSite, `"ham1", want "ber1"`},
		{"too many lost", listing(6, 7), nil, LostMachines, "3 of 10 machines in use are missing or newly decommissioned, at most 2"},
		{"too many tombstones", tombstones(listing(6, 10), 3), nil, LostMachines, "3 of 10 machines in use are missing or newly decommissioned"},
		{"all tombstones", tombstones(listing(6, 10), 10), nil, LostMachines, "10 of 10 machines"},
		{"lost and tombstones", tombstones(listing(6, 9), 2), nil, LostMachines, "3 of 10 machines"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, c := newTestStore()
			if changed, rejection := s.Offer(listing(5, 10), nil); !changed || rejection != nil {
				t.Fatalf("the first one: %v, %v", changed, rejection)
			}
			good := s.Status()
			c.pass(time.Minute)
			for range 2 { // a reading that is repeated is no better
				changed, rejection := s.Offer(tt.document, tt.err)
				if changed || rejection == nil || rejection.Reason != tt.want || !strings.Contains(rejection.Error(), tt.wantErr) {
					t.Fatalf("got %v, %v, want %s with %q", changed, rejection, tt.want, tt.wantErr)
				}
			}
			got := s.Status()
			if got.Inventory != good.Inventory || got.Confirmed != good.Confirmed || got.Readings != 1 || got.Problem == nil {
				t.Errorf("got %+v after %+v", got, good)
			}
			if changed, rejection := s.Offer(listing(5, 10), nil); changed || rejection != nil || s.Status().Problem != nil {
				t.Errorf("the good one again: %v, %v", changed, rejection)
			}
		})
	}
}

func TestStore_FollowsWhatIsAllowed(t *testing.T) {
	s, _ := newTestStore()
	for _, document := range [][]byte{listing(1, 10), listing(1, 8), listing(2, 7), listing(3, 100)} {
		if changed, rejection := s.Offer(document, nil); !changed || rejection != nil {
			t.Fatalf("got %v, %v", changed, rejection)
		}
	}
	if got := len(s.Status().Inventory.Machines); got != 100 {
		t.Errorf("got %d machines", got)
	}
}

func TestStore_Restore(t *testing.T) {
	s, _ := newTestStore()
	if err := s.Restore(Saved{Document: listing(5, 10)}); err != nil {
		t.Fatal(err)
	}
	if got := s.Status(); got.Inventory == nil || got.Readings != 0 || !got.Confirmed.IsZero() {
		t.Errorf("a copy counts as a reading: %+v", got)
	}
	if _, rejection := s.Offer(listing(4, 10), nil); rejection == nil || rejection.Reason != OlderSerial {
		t.Errorf("got %v, want the serial to survive a restart", rejection)
	}
	if changed, rejection := s.Offer(listing(5, 10), nil); changed || rejection != nil || s.Status().Readings != 1 {
		t.Errorf("the same again: %v, %v", changed, rejection)
	}
	if err := s.Restore(Saved{Document: []byte("{")}); err == nil {
		t.Error("a broken copy is taken")
	}
	elsewhere := NewStore(Limits{Site: "ham1"}, time.Now)
	if err := elsewhere.Restore(Saved{Document: listing(5, 10)}); err == nil || elsewhere.Status().Inventory != nil {
		t.Errorf("the copy of another site: %v", err)
	}
}

func TestStore_Missing(t *testing.T) {
	s, c := newTestStore()
	want := func(id string, readings int, since time.Duration) {
		t.Helper()
		if r, d := s.Missing(id); r != readings || d != since {
			t.Errorf("%s is missing in %d readings for %s, want %d and %s", id, r, d, readings, since)
		}
	}
	_, _ = s.Offer(listing(1, 10), nil)
	want("m9", 0, 0)
	want("never-seen", 0, 0)
	c.pass(time.Minute)
	_, _ = s.Offer(listing(2, 9), nil)
	want("m9", 1, 0)
	want("never-seen", 1, 0)
	c.pass(time.Minute)
	_, _ = s.Offer(listing(2, 9), nil)
	want("m9", 2, time.Minute)
	_, _ = s.Offer([]byte("{"), nil) // is no evidence
	want("m9", 2, time.Minute)
	_, _ = s.Offer(listing(2, 10), nil)
	want("m9", 0, 0)
	for range 9 { // nor is a source that is away
		c.pass(10 * time.Minute)
		_, _ = s.Offer(nil, errors.New("connection refused"))
	}
	_, _ = s.Offer(listing(3, 9), nil)
	want("m9", 1, 0)
	c.pass(time.Minute)
	_, _ = s.Offer(listing(3, 9), nil)
	want("m9", 2, time.Minute)
}

// Tombstones are no machines: they do not raise how many may vanish.
func TestStore_TombstonesDoNotCount(t *testing.T) {
	s, _ := newTestStore()
	var old []byte
	for n := range 90 {
		old = fmt.Appendf(old, "- {id: t%d, state: decommissioned}\n", n)
	}
	if changed, rejection := s.Offer(slices.Concat(listing(1, 10), old), nil); !changed {
		t.Fatal(rejection)
	}
	if _, rejection := s.Offer(slices.Concat(listing(2, 7), old), nil); rejection == nil ||
		rejection.Reason != LostMachines {
		t.Errorf("got %v, want three of ten to be too many", rejection)
	}
	if _, rejection := s.Offer(listing(3, 8), nil); rejection != nil {
		t.Errorf("two machines and all tombstones: %v", rejection)
	}
	if _, rejection := s.Offer(tombstones(listing(4, 8), 1), nil); rejection != nil {
		t.Errorf("a new tombstone: %v", rejection)
	}
	if _, rejection := s.Offer(tombstones(listing(5, 8), 2), nil); rejection != nil {
		t.Errorf("the next one: %v", rejection)
	}
}

// A taint that an earlier inventory had is known, from the copy of an earlier process, too, until a Node is without it.
func TestStore_Dropped(t *testing.T) {
	tainted := func(taints string) []byte {
		return fmt.Appendf(nil, "%smachines: [{id: a, taints: [%s]}, {id: b, state: "+
			"%s}]", head, taints, map[bool]string{true: "maintenance", false: "active"}[taints != ""])
	}
	s, _ := newTestStore()
	if err := s.Restore(Saved{Document: tainted("{key: gpu, effect: NoSchedule}, {key: ssd, effect: NoExecute}")}); err != nil {
		t.Fatal(err)
	}
	_, _ = s.Offer(tainted("{key: ssd, effect: NoExecute}"), nil)
	if got := s.Dropped("a"); len(got) != 1 || got[0].Key != "gpu" {
		t.Errorf("got %v, want gpu", got)
	}
	_, _ = s.Offer(tainted(""), nil)
	if a, b := s.Dropped("a"), s.Dropped("b"); len(a) != 2 || len(b) != 1 {
		t.Errorf("got %v and %v, want gpu, ssd and maintenance", a, b)
	}
	_, _ = s.Offer(tainted("{key: gpu, effect: NoSchedule}"), nil)
	if got := s.Dropped("a"); len(got) != 1 || got[0].Key != "ssd" {
		t.Errorf("got %v, want ssd", got)
	}
	if s.TaintsGone("a"); len(s.Dropped("a")) > 0 {
		t.Error("it is not forgotten")
	}
}

// Where each control plane reads a file of its own, the one that leads next may have that of the first day.
func TestStore_OwnCopies(t *testing.T) {
	several := false
	s := NewStore(Limits{MaxLossPercent: 100, OwnCopies: func() bool { return several }}, time.Now)
	_, _ = s.Offer(listing(0, 10), nil)
	if changed, rejection := s.Offer(listing(0, 9), nil); !changed {
		t.Fatalf("with one control plane: %v", rejection)
	}
	several = true
	if _, rejection := s.Offer(listing(0, 10), nil); rejection == nil || rejection.Reason != OlderSerial ||
		!strings.Contains(rejection.Error(), "raise metadata.serial") {
		t.Errorf("got %v, want the file that differs rejected", rejection)
	}
	several = false
	if changed, rejection := s.Offer(listing(0, 10), nil); !changed {
		t.Errorf("with one control plane again: %v", rejection)
	}
	several = true
	if _, rejection := s.Offer(listing(0, 10), nil); rejection != nil {
		t.Errorf("the same file: %v", rejection)
	}
	if changed, rejection := s.Offer(listing(1, 9), nil); !changed {
		t.Errorf("with a higher serial: %v", rejection)
	}
}
