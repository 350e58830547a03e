package quorum

import (
	"hash/fnv"
	"net/netip"
	"slices"
	"time"
)

// Claim is an address that one of its candidates is to own.
type Claim struct {
	Address netip.Addr
	// Candidates are the Nodes that may own it.
	Candidates []string
	// Ending are those of Candidates that are chosen where no other can be.
	Ending []string
	// Preferred are those of Candidates that are chosen before others. One that could have the address for ReturnAfter
	// without a gap takes it from an owner that is not preferred.
	Preferred   []string
	ReturnAfter time.Duration
	// Early says that this member is not to take it from an owner yet.
	Early bool
}

// able are the Nodes to choose from, of those that can now. One whose endpoint ends is no choice where another's is
// ready: when it has ended, its clients get no answer until the kubelet has noticed, and said so.
func (c Claim) able(can map[string]bool) []string {
	var all, lasting []string
	for _, name := range c.Candidates {
		if !can[name] {
			continue
		}
		all = append(all, name)
		if !slices.Contains(c.Ending, name) {
			lasting = append(lasting, name)
		}
	}
	if len(lasting) == 0 {
		return all
	}
	return lasting
}

// preferred are those of the able Nodes that are preferred, all and steady ones.
func (c Claim) preferred(able []string, steady map[string]time.Duration) (all, lasting []string) {
	for _, name := range able {
		if !slices.Contains(c.Preferred, name) {
			continue
		}
		all = append(all, name)
		if steady[name] >= c.ReturnAfter {
			lasting = append(lasting, name)
		}
	}
	return all, lasting
}

// List tells lists of names apart that are not the same memory: comparing their names is the work that it is to save.
type List struct {
	first *string
	names int
}

// ListOf is where a list of names is.
func ListOf(names []string) List {
	if len(names) == 0 {
		return List{}
	}
	return List{&names[0], len(names)}
}

// score is FNV-1a with MurmurHash3's finalizer, without which names that differ at their end have similar scores.
func score(address netip.Addr, node string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(append(address.AsSlice(), node...)) // it never fails
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
