package quorum

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// BenchmarkReconcile is a look at a thousand addresses, which members own that are all alive, and which nothing has changed about.
func BenchmarkReconcile(b *testing.B) {
	for _, nodes := range []int{100, 1000} {
		b.Run(fmt.Sprintf("%d Nodes, 1000 addresses", nodes), func(b *testing.B) {
			now := time.Hour
			names := nodeNames(nodes)
			q := New(names[0], 1, 0)
			q.SetMembers(0, names[:min(nodes, 7)], nil, nil)
			claims := make([]Claim, 1000)
			for i := range claims {
				claims[i] = Claim{Address: netip.AddrFrom4([4]byte{198, 18, byte(i / 250), byte(i % 250)}), Candidates: names}
			}
			for i, name := range names[1:] {
				p := q.peer(name)
				p.incarnation, p.heard, p.acknowledged = 1, now, now
				for j := i; j < len(claims); j += nodes - 1 {
					p.requests[claims[j].Address] = peerRequest{number: 1, owns: true}
					q.grants[claims[j].Address] = &grant{owner: name, number: 1}
				}
			}
			q.Reconcile(now, claims)
			q.Tick(now)
			b.ResetTimer()
			for range b.N {
				q.Reconcile(now, claims)
				q.Tick(now)
			}
			if len(q.requests) > 0 {
				b.Error("it has requested addresses that others own")
			}
		})
	}
}
