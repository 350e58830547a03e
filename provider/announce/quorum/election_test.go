package quorum

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
)

func candidatesOf(addresses int, nodes ...string) []candidates {
	list := make([]candidates, addresses)
	for i := range list {
		list[i] = candidates{address: netip.AddrFrom4([4]byte{198, 18, byte(i / 250), byte(i % 250)}), names: nodes}
	}
	return list
}

func nodeNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("worker-%d", i)
	}
	return names
}

func loads(elected map[netip.Addr]string) map[string]int {
	count := map[string]int{}
	for _, name := range elected {
		count[name]++
	}
	return count
}

func TestElect_Bounded(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 50} {
		for _, addresses := range []int{1, 5, 200, 1000} {
			limit := (addresses+n-1)/n + 1
			for name, load := range loads(elect(candidatesOf(addresses, nodeNames(n)...))) {
				if load > limit {
					t.Errorf("%d addresses, %d nodes: %s has %d, more than %d", addresses, n, name, load, limit)
				}
			}
		}
	}
}

// The death of a Node moves what it had and nothing else; its return moves nothing.
func TestElect_MovesLittle(t *testing.T) {
	all := nodeNames(5)
	before := elect(candidatesOf(200, all...))
	dead := all[2]
	left := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return name == dead })
	during := candidatesOf(200, left...)
	for i := range during {
		during[i].owner = before[during[i].address]
	}
	after := elect(during)
	for address, name := range before {
		if name != dead && after[address] != name {
			t.Errorf("%s moved from %s to %s though that Node lives", address, name, after[address])
		}
		if after[address] == "" || after[address] == dead {
			t.Errorf("%s is with %q", address, after[address])
		}
	}
	again := candidatesOf(200, all...)
	for i := range again {
		again[i].owner = after[again[i].address]
	}
	for address, name := range elect(again) {
		if after[address] != name {
			t.Errorf("%s moved from %s to %s when %s came back", address, after[address], name, dead)
		}
	}
}

func TestElect_OnlyCandidates(t *testing.T) {
	list := candidatesOf(3, "a", "b")
	list[0].names, list[0].owner = []string{"b"}, "a" // which has no endpoint any more
	list[1].names = nil
	elected := elect(list)
	if elected[list[0].address] != "b" || elected[list[1].address] != "" || elected[list[2].address] == "" {
		t.Errorf("got %v", elected)
	}
}

func TestClaim_Able(t *testing.T) {
	c := Claim{Candidates: []string{"a", "b", "c"}, Ending: []string{"a", "b"}}
	for _, tt := range []struct {
		name      string
		can, want []string
	}{
		{"one has an endpoint that stays", []string{"a", "b", "c"}, []string{"c"}},
		{"that one is away", []string{"a", "b"}, []string{"a", "b"}},
		{"no candidate is there", []string{"d"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			can := map[string]bool{}
			for _, name := range tt.can {
				can[name] = true
			}
			if got := c.able(can); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// Who returns is remembered by each member for itself: what has no owner goes to the same Node, whatever they remember.
func TestElect_ReturningDecidesNothingElse(t *testing.T) {
	nodes := nodeNames(4)
	for owned := range 8 {
		list := candidatesOf(8, nodes...)
		for i := range list {
			list[i].preferred = nodes[:2]
			if i < owned {
				list[i].owner = nodes[2+i%2]
			}
		}
		before := elect(list)
		for i := range list {
			list[i].returning = nodes[i%2 : i%2+1]
		}
		after := elect(list)
		for _, c := range list[owned:] {
			if before[c.address] != after[c.address] {
				t.Errorf("%d owned: %s goes to %s, and to %s where others return", owned, c.address, before[c.address], after[c.address])
			}
		}
	}
}
