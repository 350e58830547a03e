package allocator

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/provider/controlplane"
)

// Snapshot is all that an allocation depends on. Nothing in it is changed.
type Snapshot struct {
	Now        time.Time
	Known      []*corev1.Service
	Present    []*Claim
	Pools      []*Pool
	Peers      bool // there is a BGPPeer
	Namespaces map[string]labels.Set
	Conflicts  map[netip.Addr]bool // by objects of others
	Lingering  map[netip.Addr]bool // published for Services that are no longer ours
	Nodes      map[netip.Addr]bool // addresses of Nodes
	Announced  map[netip.Addr]bool // by agents that live
	Plane      controlplane.Addresses
	Leases     map[LeaseKey]Lease       // what IPAMs have answered
	Asked      map[types.UID][]LeaseKey // by Services that say so: an IPAM may have an address for them that no claim has
}

// Plan is what claims should be.
type Plan struct {
	// Claims to write where they differ from their object, by address.
	Claims map[netip.Addr]*Claim
	// Drop are claims to delete.
	Drop []*Claim
	// Services are those that are ours.
	Services map[types.NamespacedName]*Assignment
	// Wake is when a quarantine ends, if any.
	Wake time.Time
	// Calls are what IPAMs are to be asked.
	Calls map[LeaseKey]*LeaseCall
	// Records are what the status of Services has to say of that before they are asked; empty: nothing any more.
	Records map[types.UID][]LeaseKey
	// Left are addresses that an IPAM may have for ever, since its pool is gone, or has no IPAM any more.
	Left []LeaseKey
	// Recalled are addresses that an IPAM is asked to release, since the manager remembers them, and nothing else does.
	Recalled []LeaseKey
}

// Assignment is what a Service gets.
type Assignment struct {
	Service *corev1.Service
	Request Request
	// nodeIP: it has the addresses of Nodes, and no claims.
	NodeIP bool
	// By family; true is IPv6.
	By map[bool]netip.Addr
	// Reassigned says that it got another address, as it had asked.
	Reassigned bool
	// Moot says that it had asked so, and had none.
	Moot bool
	// Problem is what it does not get. It may have addresses all the same.
	Problem *finding.Finding
	// Remark is what else there is to say of the addresses that it has.
	Remark string
	// Next replaces the IPv6 address under the former prefix of a pool once an agent announces it; invalid: none does.
	Next netip.Addr
	// Follows says what keeps it from that, and Followed what came of it.
	Follows, Followed string
	// stays is why the address cannot follow the prefix of its pool.
	stays *finding.Finding
	// waits is for the answer of which IPAM.
	waits *finding.Finding
	// unshared is why it may not have an address any more that it has had with others.
	unshared *finding.Finding
	place    int // among all Services by age
}

// Addresses are in the order of the Service's families; none, where it wants all or none.
func (as *Assignment) Addresses() []netip.Addr {
	var list []netip.Addr
	for _, ipv6 := range Families(as.Service) {
		if address, ok := as.By[ipv6]; ok {
			list = append(list, address)
		} else if NeedsAll(as.Service) {
			return nil
		}
	}
	return list
}

// knowsAddress reports whether the Service has an address that it was told of, or one that has replaced it since. A claim alone is that of
// a pass which was cut short.
func (as *Assignment) knowsAddress(a *allocation) bool {
	told := slices.Concat(Earlier(as.Service, false), Earlier(as.Service, true))
	return slices.ContainsFunc(told, func(address netip.Addr) bool {
		own, has := as.By[address.Is6()]
		return has && (own == address || a.sameHost(own, address))
	})
}

func (as *Assignment) fail(problem *finding.Finding) {
	if as.Problem == nil {
		as.Problem = problem
	}
}

// Note adds the addresses that kube-proxy serves for a Service that is no longer ours. Their claims stay.
func (s *Snapshot) Note(service *corev1.Service) {
	if Served(service) {
		return
	}
	for _, address := range Earlier(service, true) {
		s.Lingering[address] = true
	}
}

// allocation is a plan that is being made.
type allocation struct {
	*Snapshot
	Plan
	order    []*Assignment
	reserved map[types.NamespacedName][]netip.Addr // in quarantine
	// shareable are made when the first Service looks for one, and exhausted are pools without any free address of a family.
	shareable shareable
	exhausted map[poolFamily]bool
	held      map[LeaseKey]*Claim // by what IPAMs have
}

type poolFamily struct {
	pool string
	ipv6 bool
}

// Older orders Services by age.
func Older(x, y *Assignment) int {
	return cmp.Or(x.Service.CreationTimestamp.Compare(y.Service.CreationTimestamp.Time),
		cmp.Compare(NameOf(x.Service).String(), NameOf(y.Service).String()))
}
