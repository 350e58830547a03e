// Package externalips is `ccmadm lb external-ips`: for each Service with spec.externalIPs what to do, before a Kubernetes version
// that ignores the field.
//
// Start at [Read], which looks once, and [Cluster.Plan]. judge.go looks at each Service, address.go at each address, sharing.go
// finds Services with one address, pools.go proposes AddressPools, trial.go asks the allocator of the cloud-controller-manager
// whether each Service would get its addresses, commands.go and show.go print.
//
// Reads: Services, Nodes, Namespaces, ServiceCIDRs, IPAddresses, AddressPools, BGPPeers, NodeAgents, and at which address the API
// server is reached. Writes: to the io.Writer that it is given.
// Running it twice: the same cluster gives the same plan.
// It will not: change anything. The printed commands do.
package externalips

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Action is what to do with a Service.
type Action string

// Move makes it a LoadBalancer with the same address. Remove takes externalIPs away that have no effect, or none beside those in
// its status. Blocked Services need a decision first.
const (
	Move    Action = "Move"
	Remove  Action = "Remove"
	Blocked Action = "Blocked"
)

// Plan is what to do.
type Plan struct {
	// Services are those with externalIPs, by namespace and name.
	Services []Service `json:"services"`
	// Pools are the AddressPools to create.
	Pools []v1alpha1.AddressPool `json:"pools,omitempty"`
	// Notes are about the cluster.
	Notes []string `json:"notes,omitempty"`
}

// Service is one with externalIPs.
type Service struct {
	// Service is NAMESPACE/NAME.
	Service string             `json:"service"`
	Type    corev1.ServiceType `json:"type"`
	// Ports are PORT/PROTOCOL.
	Ports     []string  `json:"ports,omitempty"`
	Addresses []Address `json:"addresses"`
	Action    Action    `json:"action"`
	// Reason is why it is blocked, or why the addresses can go, and Do what to do about it.
	Reason string `json:"reason,omitempty"`
	Do     string `json:"do,omitempty"`
	// Notes are what to know before.
	Notes []string `json:"notes,omitempty"`
	// Commands are lines for a shell, in their order; none for a blocked Service.
	Commands []string `json:"commands,omitempty"`
}

// Address is one of externalIPs.
type Address struct {
	Address string `json:"address"`
	// Pool is the AddressPool that contains it, and New says that it is one of the plan's.
	Pool string `json:"pool,omitempty"`
	New  bool   `json:"new,omitempty"`
	// Conflict is what else has the address.
	Conflict string `json:"conflict,omitempty"`
}

// candidate is a Service while the plan is made.
type candidate struct {
	*Service
	object *corev1.Service
	// wanted are the addresses that it is to have as a LoadBalancer.
	wanted []netip.Addr
	// annotations are what the move sets beside the address.
	annotations map[string]string
}

// block takes texts that quote what tenants wrote.
func (c *candidate) block(reason, do string) {
	c.Action, c.Reason, c.Do = Blocked, finding.Clean(reason), finding.Clean(do)
}

// moves reports whether the Service is to be moved, as far as is known.
func (c *candidate) moves() bool { return c.Action == Move }

// planner makes a plan.
type planner struct {
	*ground
	candidates []*candidate
	proposed   []*v1alpha1.AddressPool
}

// Plan decides about every Service with externalIPs. The kubectl words begin each command, so that it goes to the same cluster.
func (r *Cluster) Plan(kubectl ...string) *Plan {
	p := &planner{ground: newGround(r)}
	services := slices.SortedFunc(slices.Values(r.Services), func(a, b corev1.Service) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for i := range services {
		if len(services[i].Spec.ExternalIPs) > 0 {
			p.candidates = append(p.candidates, p.judge(&services[i]))
		}
	}
	for again := true; again; { // each pass but the last blocks a Service
		p.share()
		p.propose()
		again = p.try()
	}
	p.noteShared()
	plan, pools := &Plan{Services: []Service{}}, p.all()
	for _, c := range p.candidates {
		p.locate(c, pools)
		c.Commands = c.commands(kubectl)
		plan.Services = append(plan.Services, *c.Service)
	}
	for _, pool := range p.proposed {
		shown := *pool
		shown.CreationTimestamp.Reset()
		plan.Pools = append(plan.Pools, shown)
	}
	if len(plan.Services) > 0 && r.Defined && len(r.Agents) == 0 {
		plan.Notes = append(plan.Notes, "no node agent reports, so no address would be announced: "+finding.NotAnnounced.Kind().Do)
	}
	return plan
}

// Left are the names of Services that the commands do not move, and All those of all.
func (p *Plan) Left() (left, all []string) {
	for _, s := range p.Services {
		all = append(all, s.Service)
		if s.Action == Blocked {
			left = append(left, s.Service)
		}
	}
	return left, all
}
