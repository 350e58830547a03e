package balancer

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
)

// unreadyTime is how long a Node that is no longer Ready keeps its addresses in Services at level NodeIP. A kubelet may change its
// condition as often as it likes, and each change would rewrite every Service that has the Node, for all kube-proxies and agents.
const unreadyTime = 30 * time.Second

// readiness has, by Node, the time at which a Node that took traffic was first seen not to be Ready. The zero time: it is Ready. Nodes that
// never took traffic are not in it. Times are of this process: those of the condition are a kubelet's clock.
type readiness map[types.UID]time.Time

// observe takes in the Nodes, and returns those that were Ready less than unreadyTime ago and are not any more. A Node that is deleted, or
// about to go, is none of them.
func (r readiness) observe(now time.Time, hosts []*allocator.Host) (lately map[types.UID]bool) {
	lately, there := map[types.UID]bool{}, map[types.UID]bool{}
	for _, h := range hosts {
		uid := h.UID
		there[uid] = true
		since, known := r[uid]
		switch {
		case evaluation.Carries(h.Node):
			r[uid] = time.Time{}
		case !known:
		case since.IsZero() && !evaluation.Leaves(h.Node):
			r[uid], lately[uid] = now, true
		case since.IsZero(), evaluation.Leaves(h.Node), now.Sub(since) >= unreadyTime:
			delete(r, uid)
		default:
			lately[uid] = true
		}
	}
	maps.DeleteFunc(r, func(uid types.UID, _ time.Time) bool { return !there[uid] })
	return lately
}

// next is when the first of them loses its addresses; the zero time: none does.
func (r readiness) next() time.Time {
	var first time.Time
	for _, since := range r {
		if end := since.Add(unreadyTime); !since.IsZero() && (first.IsZero() || end.Before(first)) {
			first = end
		}
	}
	return first
}
