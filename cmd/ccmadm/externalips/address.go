package externalips

import (
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/network"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/controlplane"
)

// ground is the cluster as the allocator of the cloud-controller-manager has it.
type ground struct {
	cluster    *Cluster
	hosts      []*allocator.Host
	cidrs      []*networkingv1.ServiceCIDR
	plane      controlplane.Addresses
	routers    allocator.Routers
	present    []*allocator.Claim
	conflicts  map[netip.Addr]bool
	namespaces map[string]labels.Set
	// nodes are addresses of Nodes, with what they are.
	nodes map[netip.Addr]string
	// interfaces are addresses on interfaces of Nodes, as agents report them.
	interfaces map[netip.Addr]string
	existing   []*v1alpha1.AddressPool
	// pools are the existing ones, as the cloud-controller-manager reads them.
	pools []*allocator.Pool
	// elsewhere are addresses of load balancers of other programs, with their Services.
	elsewhere map[netip.Addr]string
}

func newGround(r *Cluster) *ground {
	g := &ground{
		cluster: r, cidrs: pointers(r.CIDRs), existing: pointers(r.Pools), hosts: allocator.HostsOf(pointers(r.Nodes), nil),
		conflicts: map[netip.Addr]bool{}, namespaces: map[string]labels.Set{}, nodes: map[netip.Addr]string{},
		interfaces: map[netip.Addr]string{}, elsewhere: map[netip.Addr]string{},
	}
	g.plane = controlplane.Addresses{Endpoints: r.Endpoints, Servers: controlplane.ServersOf(pointers(r.Servers))}
	var live []*v1alpha1.NodeAgent
	for _, agent := range pointers(r.Agents) {
		if r.Renewals.Silence(r.Now, agent) <= network.Patience {
			live = append(live, agent)
		}
		for _, i := range agent.Status.Interfaces {
			for _, text := range i.Addresses {
				if prefix, err := netip.ParsePrefix(text); err == nil {
					g.interfaces[prefix.Addr().Unmap()] = finding.Clean(fmt.Sprintf("interface %s of Node/%s", i.Name, agent.Name))
				}
			}
		}
	}
	g.routers = allocator.RoutersOf(pointers(r.Peers), live)
	for _, object := range pointers(r.Claims) {
		if claim, ours := allocator.ParseClaim(object); ours {
			g.present = append(g.present, claim)
		} else if address, err := netip.ParseAddr(object.Name); err == nil {
			g.conflicts[address] = true
		}
	}
	for i := range r.Namespaces {
		g.namespaces[r.Namespaces[i].Name] = r.Namespaces[i].Labels
	}
	for i := range r.Nodes {
		for _, a := range r.Nodes[i].Status.Addresses {
			if address, err := netip.ParseAddr(a.Address); err == nil {
				g.nodes[address.Unmap()] = finding.Clean(fmt.Sprintf("the %s of Node/%s", a.Type, r.Nodes[i].Name))
			}
		}
	}
	for _, object := range pointers(r.Services) {
		if object.Spec.Type != corev1.ServiceTypeLoadBalancer || object.DeletionTimestamp != nil || allocator.Served(object) {
			continue
		}
		for _, address := range allocator.Earlier(object, true) {
			g.elsewhere[address] = "Service/" + object.Namespace + "/" + object.Name
		}
	}
	g.pools = g.read(g.existing...)
	return g
}

func pointers[T any](list []T) []*T {
	all := make([]*T, len(list))
	for i := range list {
		all[i] = &list[i]
	}
	return all
}

// read reads AddressPools as the cloud-controller-manager does.
func (g *ground) read(objects ...*v1alpha1.AddressPool) []*allocator.Pool {
	return allocator.ReadPools(objects, g.hosts, g.cidrs, g.plane, g.routers)
}

// judgeAddress blocks a Service with an address that no pool can give.
func (p *planner) judgeAddress(c *candidate, i int, address netip.Addr) {
	shown := &c.Addresses[i]
	if whose, is := p.nodes[address]; is {
		shown.Conflict = "it is " + whose
		c.block(address.String()+" is "+whose, "annotation "+v1alpha1.LevelAnnotation+": NodeIP with type LoadBalancer publishes addresses of "+
			"Nodes; an address of a pool must be no Node's")
		return
	}
	if p.plane.Has(address) {
		shown.Conflict = "it is the control plane's address"
		c.block(address.String()+" is the control plane's address", "remove it from spec.externalIPs")
		return
	}
	if whose, is := p.elsewhere[address]; is {
		shown.Conflict = "it is in the status of " + whose
		c.block(address.String()+" is in the status of "+whose+", which another program serves", "give the Service another address, or add its "+
			"ports to "+whose)
		return
	}
	if allocator.PoolOf(p.pools, address) == nil {
		for _, pool := range p.read(newPool("probe", p.cluster.Now, []string{address.String()}, nil)) {
			switch {
			case pool.Problem != nil:
				shown.Conflict = pool.Problem.Error()
			case !pool.Free.Contains(address):
				shown.Conflict = pool.Except()
			}
		}
		if shown.Conflict != "" {
			c.block("no AddressPool can have "+address.String()+": "+shown.Conflict, "give the Service another address")
		}
	}
	if where, is := p.interfaces[address]; is {
		c.Notes = append(c.Notes, fmt.Sprintf("%s is on %s: remove it there, or that machine answers for it as well", address, where))
	}
}

// newPool is an AddressPool of these ranges for these namespaces, for Services that ask for its addresses.
func newPool(name string, now time.Time, ranges, namespaces []string) *v1alpha1.AddressPool {
	return &v1alpha1.AddressPool{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion().String(), Kind: v1alpha1.AddressPoolKind},
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now)},
		Spec: v1alpha1.AddressPoolSpec{
			Ranges: ranges, AutoAssign: new(false), Serve: v1alpha1.PoolServe{Namespaces: namespaces},
		},
	}
}

// nodeAddresses are those of all Nodes.
func (g *ground) nodeAddresses() map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	for address := range g.nodes {
		all[address] = true
	}
	return all
}

// known are the Services, some of them replaced.
func (g *ground) known(replaced map[string]*corev1.Service) []*corev1.Service {
	var list []*corev1.Service
	for _, object := range pointers(g.cluster.Services) {
		if other := replaced[object.Namespace+"/"+object.Name]; other != nil {
			object = other
		}
		list = append(list, object)
	}
	return list
}
