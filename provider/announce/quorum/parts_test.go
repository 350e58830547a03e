package quorum

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// longName is one of the length of names that some clouds give, or longer.
func longName(i, length int) string {
	name := fmt.Sprintf("ip-10-0-%02d-%03d.eu-central-1.compute.internal", i/200, i%200)
	return name + strings.Repeat("x", length-len(name))
}

// longWorld has members with such names, and a number of addresses.
func longWorld(t *testing.T, members, length int) *world {
	w := newWorld(t, 1, members, 60)
	for i, m := range w.members {
		m.name = longName(i, length)
		m.quorum = New(m.name, uint64(i+1), w.clock(m))
	}
	for i := range w.claims {
		w.claims[i].Address = netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", i+1))
		w.claims[i].Candidates = w.names(members)
	}
	return w
}

// A datagram is no longer than 1,200 bytes, whatever is in it: parts of a list of 100 Nodes that one lacks, and as many
// operations as fit. One that does not know the list of the others learns it, and owns addresses.
func TestQuorum_DatagramsAreShort(t *testing.T) {
	for _, length := range []int{44, 253} {
		t.Run(fmt.Sprintf("names of %d bytes", length), func(t *testing.T) {
			w := longWorld(t, 4, length)
			var hundred []string
			gone := map[string]bool{}
			for i := range 100 {
				hundred = append(hundred, longName(i, length))
				gone[longName(i, length)] = i >= 4
			}
			for i, m := range w.members {
				if i > 0 { // the first one only hears of the list of a hundred
					m.quorum.SetMembers(w.clock(m), hundred, nil, gone)
				}
				m.quorum.SetMembers(w.clock(m), w.names(4), nil, gone)
			}
			longest, parts := 0, map[uint16]bool{}
			w.sending = func(d *Datagram, data []byte) {
				longest = max(longest, len(data))
				if d.ListOf != 0 && d.To == w.members[0].name {
					parts[d.Offset] = true
				}
				if want := d.size(); len(d.Operations) == 0 && d.Version >= versionParts && len(data) != want {
					t.Fatalf("a datagram of %d bytes counts as %d", len(data), want)
				}
			}
			w.loss = 0.2
			w.run(3 * time.Second)
			if longest > 1200 || longest < 1000 {
				t.Errorf("the longest datagram has %d bytes, want some more than 1,000 and none more than 1,200", longest)
			}
			if len(parts) < 4 {
				t.Errorf("a list of a hundred came in %d parts", len(parts))
			}
			w.loss = 0
			w.run(3 * time.Second)
			if took := w.untilOwned(); took > 0 {
				t.Errorf("addresses have owners %s later", took)
			}
		})
	}
}

// Agents of the release before get a list as a whole, and both versions use the newest one once both know it.
func TestQuorum_ListsForOlderVersions(t *testing.T) {
	w := longWorld(t, 3, 44)
	older := w.members[2]
	older.quorum.version = versionRevoked
	whole, refused := false, 0
	w.sending = func(d *Datagram, _ []byte) {
		whole = whole || d.To == older.name && len(d.List) == 3 && d.ListOf == 0 && d.Version == versionRevoked
		if d.From == w.members[1].name && d.To == older.name && d.Version > versionRevoked {
			refused++
		}
	}
	for _, m := range w.members[:2] {
		m.quorum.SetMembers(w.clock(m), w.names(3), nil, nil)
	}
	older.quorum.SetMembers(w.clock(older), slices.Clone(w.names(3)[1:]), nil, nil)
	w.run(5 * time.Second)
	if !whole || len(older.quorum.memberships.known[IDOf(w.names(3))]) != 3 {
		t.Error("the older one did not get the list")
	}
	if refused > 2*maxShown {
		t.Errorf("%d datagrams to the older one are of a version that it does not know", refused)
	}
	w.restart(older) // it is of this release now, and hears the version before of the others before it says anything
	w.run(500 * time.Millisecond)
	for _, m := range w.members {
		m.quorum.SetMembers(w.clock(m), w.names(3), nil, nil)
	}
	w.run(3 * time.Second)
	for _, m := range w.members {
		for name, p := range m.quorum.peers {
			if p.version != versionNow {
				t.Errorf("%s speaks to %s in version %d", m.name, name, p.version)
			}
		}
	}
}

// What comes in parts is taken only as a whole, whatever somebody sends.
func TestParts(t *testing.T) {
	names := strings.Fields("a b c d e")
	id := IDOf(names)
	for _, tt := range []struct {
		name  string
		parts []Datagram
		want  bool
	}{
		{"in order", []Datagram{{ListOf: id, Total: 5, List: names[:3]}, {ListOf: id, Total: 5, Offset: 3, List: names[3:]}}, true},
		{"backwards", []Datagram{{ListOf: id, Total: 5, Offset: 3, List: names[3:]}, {ListOf: id, Total: 5, List: names[:3]}}, true},
		{"one lost", []Datagram{{ListOf: id, Total: 5, Offset: 3, List: names[3:]}}, false},
		{"too long", []Datagram{{ListOf: id, Total: 2, Offset: 1, List: names}}, false},
		{"another list", []Datagram{{ListOf: id, Total: 2, List: names[:2]}}, false},
		{"empty", []Datagram{{ListOf: id}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var a parts
			var got []string
			for i := range tt.parts {
				got = a.add(&tt.parts[i])
			}
			if (got != nil) != tt.want || tt.want && !slices.Equal(got, names) {
				t.Errorf("got %v", got)
			}
		})
	}
}
