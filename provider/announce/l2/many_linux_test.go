package l2

import (
	"fmt"
	"maps"
	"net/netip"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
)

// A thousand addresses: those that come to a fifth disturb none of these, and all are announced within seconds. With the
// race detector all takes ten times as long, and on a busy machine heartbeats are so late that addresses move: there, a
// fifth of the addresses shows the races, only the end counts, and `make unit` runs it without, too.
func TestL2_Thousand(t *testing.T) {
	all := 1000
	if raceDetector {
		all = 200
	}
	a := newAgents(t)
	a.view.Pools = map[string]*v1alpha1.AddressPool{"many": {
		ObjectMeta: metav1.ObjectMeta{Name: "many"},
		Spec:       v1alpha1.AddressPoolSpec{Interfaces: []string{"lan-a", "lan-b", "lan-c"}},
	}}
	a.startAll()
	a.set(func(v *announce.View) { v.Claims = many(0, all/5, v.Members) })
	before, took := a.allOwned(all/5, time.Minute)
	t.Logf("%d addresses: %s", all/5, took)
	a.set(func(v *announce.View) { v.Claims = many(0, all, v.Members) })
	after, took := a.allOwned(all, time.Minute)
	t.Logf("%d more: %s", all-all/5, took)
	for address, owner := range before {
		if after[address] != owner && !raceDetector {
			t.Errorf("%s moved from %s to %s", address, owner, after[address])
		}
	}
	for name, l2 := range a.list {
		if counts := l2.Counts(); counts.Takeovers > 400 && !raceDetector {
			t.Errorf("%s took an address %d times", name, counts.Takeovers)
		}
	}
	gone := a.most()
	lost := 0
	for _, owner := range after {
		if owner == gone {
			lost++
		}
	}
	a.kill(gone)
	_, took = a.allOwned(all, time.Minute)
	t.Logf("%s, which had %d, was killed: %s", gone, lost, took)
}

// many are claims from the first to before the last.
func many(first, last int, candidates []string) []announce.Claim {
	var claims []announce.Claim
	for i := first; i < last; i++ {
		claims = append(claims, announce.Claim{
			Address: netip.MustParseAddr(fmt.Sprintf("10.9.%d.%d", i/250, i%250+1)), Level: v1alpha1.LevelL2, Pool: "many",
			Candidates: candidates,
		})
	}
	return claims
}

// allOwned waits until so many addresses are announced, and returns by whom.
func (a *agents) allOwned(n int, within time.Duration) (map[string]string, time.Duration) {
	a.t.Helper()
	start := time.Now()
	for {
		owners := map[string]string{}
		for name, l2 := range a.list {
			status := v1alpha1.NodeAgentStatus{}
			l2.Report(&status)
			for _, x := range status.Announcements {
				owners[x.Address] = name
			}
		}
		if len(owners) == n {
			return owners, time.Since(start)
		}
		if time.Since(start) > within {
			a.t.Fatalf("within %s %d of %d addresses are announced", within, len(owners), n)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// most is the agent that owns most.
func (a *agents) most() string {
	most, has := "", -1
	for name := range maps.Keys(a.list) {
		if n := a.list[name].Counts().Owned; n > has {
			most, has = name, n
		}
	}
	return most
}
