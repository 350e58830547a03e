package quorum

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func exampleDatagram() *Datagram {
	return &Datagram{
		From: "a", To: "b", Stamp: stamp{1, 2}, Echo: stamp{3, 4}, Acknowledged: 5, Applied: 6, First: 7, Last: 9, Revoked: 8,
		Draining: true, Version: versionNow,
		Lists: []ListID{10, 11}, Lacks: 12, List: []string{"a", "b"}, ListOf: 13, Offset: 1, Total: 4,
		Operations: []operation{
			{opRequest, netip.MustParseAddr("192.0.2.1"), 0},
			{opGrant, netip.MustParseAddr("2001:db8::1"), 8},
		},
	}
}

func TestDatagram(t *testing.T) {
	key := []byte("the key of this cluster")
	d := exampleDatagram()
	data := d.Encode(key)
	got, err := Decode(key, data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, got, cmp.AllowUnexported(operation{}), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("-sent +received:\n%s", diff)
	}
	d.Version, d.ListOf, d.Offset, d.Total = versionRevoked, 0, 0, 0
	got, err = Decode(key, d.Encode(key))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, got, cmp.AllowUnexported(operation{}), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("of the release before: -sent +received:\n%s", diff)
	}
	d.Version = versionBefore
	d.Revoked = d.Last // it does not say which one took a grant back: any may
	got, err = Decode(key, d.Encode(key))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, got, cmp.AllowUnexported(operation{}), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("of the version before: -sent +received:\n%s", diff)
	}
	if _, err := Decode([]byte("the key of another one"), data); !errors.Is(err, errForged) {
		t.Errorf("another cluster's: %v", err)
	}
	for n := range data {
		if _, err := Decode(key, data[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes are taken for a datagram", n, len(data))
		}
		changed := append([]byte(nil), data...)
		changed[n] ^= 1
		if _, err := Decode(key, changed); err == nil {
			t.Fatalf("a datagram is taken whose byte %d was changed", n)
		}
	}
}

// With the right signature only the sender can be wrong; even so nothing must panic.
func FuzzDatagram(f *testing.F) {
	data := exampleDatagram().Encode(nil)
	f.Add(data[:len(data)-32])
	f.Fuzz(func(t *testing.T, body []byte) {
		d, err := Decode(nil, append(append([]byte(nil), body...), sign(nil, body)...))
		if err != nil {
			return
		}
		d.To = "self"
		q := New("self", 1, time.Second)
		q.SetMembers(time.Second, []string{"self", d.From}, nil, nil)
		d.Echo = stamp{1, uint64(time.Second)}
		q.Receive(time.Second, d)
		q.Tick(time.Second)
		for _, answer := range q.Datagrams(time.Second) {
			if _, err := Decode(nil, answer.Encode(nil)); err != nil {
				t.Errorf("its answer cannot be read: %v", err)
			}
		}
	})
}

// A datagram that is heard again changes nothing, whoever repeats it: neither at once, nor after both have started anew.
func TestQuorum_RefusesRepeatedDatagrams(t *testing.T) {
	w := newWorld(t, 1, 3, 1)
	for _, m := range w.members {
		m.quorum.SetMembers(w.clock(m), w.names(3), nil, nil)
	}
	w.run(2 * time.Second)
	a, b := w.members[0], w.members[1]
	a.quorum.hurry()
	var old *Datagram
	for _, d := range a.quorum.Datagrams(w.clock(a)) {
		if d.To == b.name {
			old = d
		}
	}
	if !b.quorum.Receive(w.clock(b), old) {
		t.Error("a datagram that has just been sent is not new")
	}
	heard := b.quorum.peers[a.name].heard
	w.now += 50 * time.Millisecond
	again := b.quorum.Receive(w.clock(b), old)
	if got := b.quorum.peers[a.name].heard; got != heard {
		t.Errorf("a repeated datagram counts as heard at %s, the first at %s", got, heard)
	}
	w.restart(b)
	b.quorum.SetMembers(w.clock(b), w.names(3), nil, nil)
	again = b.quorum.Receive(w.clock(b), old) || again
	if b.quorum.Alive(w.clock(b), a.name) {
		t.Error("a datagram for a former incarnation counts as heard")
	}
	if again {
		t.Error("a datagram that was sent again is new")
	}
}

// An agent that says to be of incarnation 0, of which none starts, ends no other agent: before its session begins, nothing is kept of it.
func TestReceive_WithoutIncarnation(t *testing.T) {
	q := New("n0", 7, time.Second)
	q.SetMembers(time.Second, []string{"n0", "n1"}, nil, nil)
	for _, s := range []uint64{0, 1} {
		q.Receive(time.Second, &Datagram{
			From: "n1", To: "n0", Stamp: stamp{0, s}, Echo: stamp{7, uint64(time.Second)}, First: 1, Last: 1,
			Operations: []operation{{kind: opRequest, address: netip.MustParseAddr("192.0.2.1")}},
		})
	}
}
