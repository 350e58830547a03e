package balancer

import (
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/provider/controlplane"
)

// snapshot is all that an allocation depends on. Nothing in it is changed.
type snapshot struct {
	now        time.Time
	known      []*corev1.Service
	present    []*claim
	pools      []*pool
	peers      bool // there is a BGPPeer
	namespaces map[string]labels.Set
	conflicts  map[netip.Addr]bool // by objects of others
	lingering  map[netip.Addr]bool // published for Services that are no longer ours
	nodes      map[netip.Addr]bool // addresses of Nodes
	announced  map[netip.Addr]bool // by agents that live
	plane      controlplane.Addresses
}

// plan is what claims should be.
type plan struct {
	// claims to write where they differ from their object, by address.
	claims map[netip.Addr]*claim
	// drop are claims to delete.
	drop []*claim
	// services are those that are ours.
	services map[types.NamespacedName]*assignment
	// wake is when a quarantine ends, if any.
	wake time.Time
}

// assignment is what a Service gets.
type assignment struct {
	service *corev1.Service
	request request
	// nodeIP: it has the addresses of Nodes, and no claims.
	nodeIP bool
	// by family; true is IPv6.
	by map[bool]netip.Addr
	// reassigned says that it got another address, as it had asked.
	reassigned bool
	// moot says that it had asked so, and had none.
	moot bool
	// problem is what it does not get. It may have addresses all the same.
	problem *finding.Finding
}

// addresses are in the order of the Service's families; none, where it wants all or none.
func (as *assignment) addresses() []netip.Addr {
	var list []netip.Addr
	for _, ipv6 := range families6(as.service) {
		if address, ok := as.by[ipv6]; ok {
			list = append(list, address)
		} else if needsAll(as.service) {
			return nil
		}
	}
	return list
}

// knowsAddress says whether the Service has an address that it was told of. A claim alone is that of a pass which was
// cut short.
func (as *assignment) knowsAddress() bool {
	told := slices.Concat(earlier(as.service, false), earlier(as.service, true))
	return slices.ContainsFunc(told, func(address netip.Addr) bool { return as.by[address.Is6()] == address })
}

func (as *assignment) fail(problem *finding.Finding) {
	if as.problem == nil {
		as.problem = problem
	}
}
