package allocator

import (
	"errors"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// ErrUnanswered is in the finding of a Service for which an IPAM was just asked.
var ErrUnanswered = errors.New("has not answered yet")

func callFor(key LeaseKey, service *corev1.Service) *LeaseCall {
	return &LeaseCall{Key: key, Service: NameOf(service), kept: slices.Contains(service.Finalizers, v1alpha1.LoadBalancerFinalizer)}
}

// leased gives a Service the address that the IPAM of the pool has for it; wanted is the only one that it takes, invalid: any.
func (a *allocation) leased(as *Assignment, p *Pool, ipv6 bool, wanted netip.Addr) *finding.Finding {
	key := LeaseKey{p.Name, as.Service.UID, ipv6}
	if c := a.held[key]; c != nil {
		return p.hasFor(NameOf(as.Service), c)
	}
	if problem := a.lacks(as, ipv6); problem != nil {
		return problem
	}
	l := a.Leases[key]
	if before := a.Calls[key]; before != nil && !wanted.IsValid() && !before.Unfit && before.Wanted != l.Denied {
		wanted = before.Wanted // the address that it had: any other one is asked for only after that was refused
	}
	call := callFor(key, as.Service)
	call.Wanted = wanted
	a.Calls[key] = call
	switch {
	case !l.Answers(wanted), !l.Address.IsValid() && l.Problem == "":
		return finding.IPAMPending.Errorf("the IPAM of AddressPool/%s %w", p.Name, ErrUnanswered)
	case l.Refused:
		return finding.IPAMRefused.Errorf("the IPAM of AddressPool/%s gives no %s address: %s", p.Name, FamilyName(ipv6), l.Problem)
	case !l.Address.IsValid():
		return finding.IPAMPending.Errorf("the IPAM of AddressPool/%s %s", p.Name, l.Problem)
	}
	problem := a.takeLeased(as, p, ipv6, wanted, l.Address)
	if problem != nil {
		call.Unfit = true
		return finding.IPAMRefused.Errorf("the IPAM of AddressPool/%s answers %s: %w", p.Name, l.Address, problem)
	}
	c := a.Claims[l.Address]
	c.Lease, c.Pool, a.held[key] = key, p.Name, c
	if c.NextLease == key {
		c.NextLease = LeaseKey{}
	}
	return nil
}

// awaits says that the IPAM of a pool was asked for the address that the Service had, and has not answered: no pool gives another one
// before that is refused, whichever comes first.
func (a *allocation) awaits(as *Assignment, ipv6 bool) *finding.Finding {
	for _, p := range a.Pools {
		key := LeaseKey{p.Name, as.Service.UID, ipv6}
		call := a.Calls[key]
		if call == nil || call.Release || call.Unfit || !call.Wanted.IsValid() || call.Wanted == a.Leases[key].Denied {
			continue
		}
		if problem := a.leased(as, p, ipv6, call.Wanted); problem != nil && problem.ID == finding.IPAMPending {
			return problem
		}
	}
	return nil
}

// lacks says why a Service that wants all of its families cannot have another one: an answer would be given back in each pass. With a share
// key it may have one of a pool that gives nothing unasked.
func (a *allocation) lacks(as *Assignment, ipv6 bool) *finding.Finding {
	for _, other := range Families(as.Service) {
		_, has := as.By[other]
		if has || other == ipv6 || !NeedsAll(as.Service) || as.Request.shareKey != "" {
			continue
		}
		var problem *finding.Finding
		if address, asks := a.wanted(as, other); asks {
			problem = a.mayTake(as, address)
		} else {
			_, problem = a.poolsFor(as, other)
		}
		if problem != nil {
			return problem
		}
	}
	return nil
}

// hasFor says why the IPAM is not asked while it has an address under the key, which is that of the claim.
func (p *Pool) hasFor(service types.NamespacedName, c *Claim) *finding.Finding {
	switch {
	case !c.Live():
		return finding.IPAMPending.Errorf("the IPAM of AddressPool/%s is asked once it has released %s, which the Service had", p.Name, c.Address)
	case c.Has(service):
		return finding.IPAMRefused.Errorf("the IPAM of AddressPool/%s has %s for this Service, and gives a Service one address of a family",
			p.Name, c.Address)
	}
	return finding.IPAMPending.Errorf("the IPAM of AddressPool/%s has %s for this Service, until it has it for Service/%s", p.Name,
		c.Address, c.keptFor())
}

// takeLeased takes an address that an IPAM gives, in the limits of its pool. One that another Service has is none that it may give.
func (a *allocation) takeLeased(as *Assignment, p *Pool, ipv6 bool, wanted, address netip.Addr) *finding.Finding {
	if wanted.IsValid() && address != wanted {
		return finding.AddressInUse.Errorf("the Service requests %s", wanted)
	}
	if address.Is6() != ipv6 {
		return finding.NoSuchFamily.Errorf("it is no %s address", FamilyName(ipv6))
	}
	if in := PoolOf(a.Pools, address); in != p {
		return finding.AddressOutsidePools.Errorf("it is not in the pool")
	}
	if problem := a.mayTake(as, address); problem != nil {
		return problem
	}
	if c := a.Claims[address]; c != nil && c.Live() {
		return finding.AddressInUse.Errorf("it belongs to Service/%s", c.keptFor())
	}
	return a.join(as, address)
}

// ending reports whether a claim that is kept for its last owner is to be released by an IPAM, which may have done so: it is given to no
// Service before the IPAM says so.
func (a *allocation) ending(c *Claim) bool {
	if !c.wasReleased() {
		return false
	}
	over := !c.Released.Add(PoolOf(a.Pools, c.Address).reuseAfter()).After(a.Now)
	return slices.ContainsFunc(c.leases(), func(key LeaseKey) bool { return over || a.Leases[key].Releasing || a.Leases[key].Released })
}

// wasReleased reports whether the claim is not live, and was not before this pass.
func (c *Claim) wasReleased() bool {
	if c.Object == nil || c.Live() {
		return false
	}
	before, ours := ParseClaim(c.Object)
	return ours && !before.Live()
}

// release asks the IPAM of a claim that has ended to release the address, and returns whether it has, or there is none to ask. Of two keys
// both are asked for until both are released.
func (a *allocation) release(c *Claim) bool {
	var left []LeaseKey
	calls := map[LeaseKey]*LeaseCall{}
	released := true
	for _, key := range c.leases() {
		if !a.Leases[key].Released && a.ipamOf(key.Pool) == nil {
			left = append(left, key)
			continue
		}
		released = released && a.Leases[key].Released
		calls[key] = &LeaseCall{Key: key, Service: c.keptFor(), Release: true, Address: c.Address, Recorded: true}
	}
	switch {
	case released:
		a.Left = append(a.Left, left...)
	case c.wasReleased() && !a.Announced[c.Address]: // an agent answers for it still, and its next report is another pass
		maps.Copy(a.Calls, calls)
	}
	return released
}

// ipamOf is that of a pool; nil: there is no such pool, or it has none. One that is broken or disabled has it all the same.
func (a *allocation) ipamOf(pool string) *v1alpha1.PoolIPAM {
	for _, p := range a.Pools {
		if p.Name == pool {
			return p.Spec.IPAM
		}
	}
	return nil
}

// renew asks IPAMs to keep what Services have. Where an IPAM has another address for a Service, or none, the Service keeps its own.
func (a *allocation) renew() {
	if !slices.ContainsFunc(a.Pools, func(p *Pool) bool { return p.Spec.IPAM != nil }) {
		return // as in nearly all clusters: nothing is looked for
	}
	for _, as := range a.order {
		for _, ipv6 := range Families(as.Service) {
			if address, has := as.By[ipv6]; has && a.Claims[address].Owners[0] == NameOf(as.Service) {
				if pool := a.renews(a.Claims[address]); pool != "" {
					a.renewOne(as, pool, a.Claims[address])
				}
			}
		}
	}
}

// renews is the pool whose IPAM is asked to keep the address of a claim; empty: none. It stays the one that has it, whatever ranges the
// pool has by now: an IPAM may give to another machine what it is not asked for any more.
func (a *allocation) renews(c *Claim) string {
	for _, key := range []LeaseKey{c.NextLease, c.Lease} { // what has begun goes on: back and forth would have no end
		if key.UID != "" && a.ipamOf(key.Pool) != nil {
			return key.Pool
		}
	}
	if p := PoolOf(a.Pools, c.Address); p != nil && p.Spec.IPAM != nil {
		return p.Name
	}
	return ""
}

// renewOne asks for the address of one claim. The claim says first under what the IPAM is asked, as it may then have the address there, and
// may not answer.
func (a *allocation) renewOne(as *Assignment, pool string, c *Claim) {
	key := LeaseKey{pool, as.Service.UID, c.Address.Is6()}
	if other := a.held[key]; other != nil && other != c { // it has another address under that key, which is to be released first
		a.keepAsIs(NameOf(as.Service), c)
		return
	}
	if !a.answered(as, c, key) {
		return
	}
	asked := key
	switch {
	case c.NextLease.UID != "": // which may be that of a former owner: what has become of it is to be known first
		asked = c.NextLease
	case c.Lease.UID == "":
		c.Lease = key
	case c.Lease != key:
		c.NextLease = key
	}
	a.held[asked] = c
	l, call := a.Leases[asked], callFor(asked, as.Service)
	call.Address, call.Wanted = c.Address, c.Address
	if c.Lease != asked {
		call.From = c.Lease
	}
	a.Calls[asked] = call
	switch {
	case asked != key || l.Address == c.Address:
	case l.Address.IsValid():
		as.remark("the IPAM of AddressPool/" + pool + " answers " + l.Address.String() + ", and the Service keeps " + c.Address.String())
	case l.Refused:
		as.remark("the IPAM of AddressPool/" + pool + " refuses " + c.Address.String() + ", which the Service keeps: " + l.Problem)
	}
}

// keepAsIs asks for an address under the key of a former owner. Of two Services that have exchanged theirs, each has the other's key.
func (a *allocation) keepAsIs(name types.NamespacedName, c *Claim) {
	if c.NextLease.UID != "" || c.Lease.UID == "" || a.ipamOf(c.Lease.Pool) == nil {
		return
	}
	a.Calls[c.Lease] = &LeaseCall{Key: c.Lease, Service: name, Address: c.Address, Wanted: c.Address}
}

// answered takes the answer for the next lease of a claim, and returns whether the claim may have another one. The lease of a former owner
// under which the IPAM does not have the address is released first.
func (a *allocation) answered(as *Assignment, c *Claim, key LeaseKey) bool {
	next := c.NextLease
	l := a.Leases[next]
	switch {
	case next.UID == "":
	case l.Address == c.Address:
		delete(a.held, c.Lease)
		c.Lease, c.NextLease = next, LeaseKey{}
	case a.ipamOf(next.Pool) == nil && next != key:
		a.Left = append(a.Left, next)
		c.NextLease = LeaseKey{}
	case next == key || l.Stale: // it is asked again
	case l.Released:
		delete(a.held, next)
		c.NextLease = LeaseKey{}
	case l.Releasing || l.Refused || l.Address.IsValid():
		a.Calls[next] = &LeaseCall{Key: next, Service: NameOf(as.Service), Release: true, Recorded: true}
		return false
	}
	return true
}

func (as *Assignment) remark(text string) {
	if as.Remark != "" {
		text = as.Remark + "; " + text
	}
	as.Remark = text
}

// record plans what the status of Services says of IPAMs that may have an address which no claim has, and has those released that no
// Service waits for.
func (a *allocation) record() {
	claimed, written := map[LeaseKey]bool{}, map[LeaseKey]bool{}
	for _, c := range a.Claims {
		var before []LeaseKey
		if c.Object != nil {
			if said, ours := ParseClaim(c.Object); ours {
				before = said.leases()
			}
		}
		for _, key := range c.leases() {
			claimed[key] = true
			written[key] = written[key] || slices.Contains(before, key)
		}
	}
	for uid, keys := range a.Asked {
		a.Records[uid] = nil
		for _, key := range keys {
			switch call := a.Calls[key]; {
			case call != nil:
				call.Recorded = call.Release || call.kept && call.From.UID == "" // what moves an entry is said by the claim
			case claimed[key], a.Leases[key].Released:
			case a.ipamOf(key.Pool) == nil:
				a.Left = append(a.Left, key)
			default:
				a.Calls[key] = &LeaseCall{Key: key, Release: true, Recorded: true}
				a.Records[uid] = append(a.Records[uid], key)
			}
		}
	}
	a.recall(claimed)
	for key, call := range a.Calls {
		_, remembered := a.Leases[key]
		call.Recorded = call.Recorded || written[key] || remembered && call.From.UID == ""
		if !call.Release && !claimed[key] {
			a.Records[key.UID] = append(a.Records[key.UID], key)
		}
	}
	for _, keys := range a.Records {
		slices.SortFunc(keys, compareLeases)
	}
}

// recall has addresses released that an IPAM may have, and of which the cluster says nothing any more: who writes a Service can remove its
// finalizer, and then its status goes with it.
func (a *allocation) recall(claimed map[LeaseKey]bool) {
	for key, l := range a.Leases {
		switch {
		case a.Calls[key] != nil || claimed[key] || l.Released || a.Announced[l.Address] || slices.Contains(a.Left, key):
		case a.ipamOf(key.Pool) == nil:
			a.Left = append(a.Left, key)
		default:
			a.Calls[key] = &LeaseCall{Key: key, Release: true, Recorded: true}
			if !l.Releasing {
				a.Recalled = append(a.Recalled, key)
			}
		}
	}
}
