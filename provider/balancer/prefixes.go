package balancer

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
)

const (
	// prefixCondition is that of AddressPools with a dynamic prefix: False while the Nodes do not agree on one.
	prefixCondition = "Prefix"
	// otherNetworkReason is its reason while the Nodes have a prefix of another network than that of the pool: another leader learns it there.
	otherNetworkReason = "OtherNetwork"
)

// prefixes has, by AddressPool, what the Nodes say of its dynamic prefix. A manager that begins remembers what is in the status of a pool: its
// prefix, which stays, and whether the Nodes have one of another network, too.
type prefixes map[types.UID]prefixChange

// prefixChange is a vote, and the prefix that is to come by it.
type prefixChange struct {
	evaluation.PrefixVote
	// beside are prefixes of other networks than that of present, by the last pass in which more than half of the Nodes had an address with it.
	beside []netip.Prefix
	// besideSince has when each was reported so first, without a gap since. One that has just come may be the next one of present's network:
	// hosts do not change all of their interfaces at once.
	besideSince map[netip.Prefix]time.Time
	// unnamed: there are some by the status alone, and no majority has reported any since.
	unnamed bool
	present netip.Prefix
	next    netip.Prefix // invalid: none
	since   time.Time    // when a majority reported it first, without a gap since
}

// observe takes in what the Nodes report by now.
func (p prefixes) observe(now time.Time, pools []*v1alpha1.AddressPool, hosts []*allocator.Host, reported, live []*v1alpha1.NodeAgent) {
	there := map[types.UID]bool{}
	for _, pool := range pools {
		if pool.Spec.DynamicPrefix == nil {
			continue
		}
		there[pool.UID] = true
		change := prefixChange{PrefixVote: evaluation.VoteOnPrefix(pool, hosts, reported, live), present: allocator.PrefixOf(pool), since: now}
		before, known := p[pool.UID]
		if said := meta.FindStatusCondition(pool.Status.Conditions, prefixCondition); !known && said != nil {
			before = prefixChange{present: change.present, unnamed: said.Reason == otherNetworkReason}
		}
		if len(pool.Spec.Interfaces) == 0 {
			change.noteBeside(before, now)
		}
		change.next = change.Instead(change.present)
		if before.next == change.next && !before.since.After(now) {
			change.since = before.since
		}
		p[pool.UID] = change
	}
	maps.DeleteFunc(p, func(uid types.UID, _ prefixChange) bool { return !there[uid] })
}

// noteBeside notes which prefixes are other networks'. While few Nodes have an address with the present prefix, not even a deprecated one,
// those are that were it before: the Nodes have them all the time.
func (c *prefixChange) noteBeside(before prefixChange, now time.Time) {
	if before.present != c.present {
		before = prefixChange{}
	}
	if c.Seen {
		c.besideSince = map[netip.Prefix]time.Time{}
		for _, one := range c.Beside {
			since, was := before.besideSince[one]
			switch {
			case before.unnamed:
				since = now.Add(-evaluation.PrefixTime)
			case !was || since.After(now):
				since = now
			}
			if c.besideSince[one] = since; now.Sub(since) >= evaluation.PrefixTime {
				c.beside = append(c.beside, one)
			}
		}
		return
	}
	c.beside, c.unnamed = before.beside, before.unnamed
	if c.unnamed && len(c.Majority) > 0 {
		c.beside, c.unnamed = c.Majority, false
	}
	c.Beside = slices.DeleteFunc(slices.Clone(c.Majority), func(one netip.Prefix) bool {
		return !slices.Contains(c.Beside, one) && !slices.Contains(c.beside, one)
	})
}

// due returns when the change is to come; the zero time: none is.
func (c prefixChange) due() time.Time {
	if !c.next.IsValid() {
		return time.Time{}
	}
	return c.since.Add(evaluation.PrefixTime)
}

// next is when the first of them is due after now.
func (p prefixes) next(now time.Time) time.Time {
	var first time.Time
	for _, change := range p {
		if due := change.due(); due.After(now) && (first.IsZero() || due.Before(first)) {
			first = due
		}
	}
	return first
}

// set puts what is due into the status of a pool. Services follow in the next pass, once the status is written: a manager that ends before
// has moved none.
func (p prefixes) set(status *v1alpha1.AddressPoolStatus, pool *v1alpha1.AddressPool, now time.Time) {
	if pool.Spec.DynamicPrefix == nil {
		status.DynamicPrefix = nil
		meta.RemoveStatusCondition(&status.Conditions, prefixCondition)
		return
	}
	change, has := p[pool.UID], allocator.PrefixOf(pool)
	if due := change.due(); !due.IsZero() && !due.After(now) {
		klog.InfoS("The prefix of an AddressPool changes", "pool", pool.Name, "to", change.next)
		has = change.next
		status.DynamicPrefix = &v1alpha1.PoolPrefix{Prefix: has.String(), Since: metav1.NewTime(now.Truncate(time.Second))}
	}
	c := metav1.Condition{
		Type: prefixCondition, Status: metav1.ConditionTrue, Reason: "Agreed", Message: "more than half of the Nodes report " + has.String(),
		ObservedGeneration: pool.Generation, LastTransitionTime: metav1.NewTime(now),
	}
	if why := change.Disagreement(has); why != "" {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, "Disagreement", why
		if len(change.beside) > 0 || change.unnamed {
			c.Reason = otherNetworkReason
		}
		if has.IsValid() {
			c.Message += "; " + has.String() + " stays"
		}
	}
	meta.SetStatusCondition(&status.Conditions, c)
}
