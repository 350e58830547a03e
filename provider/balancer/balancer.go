// Package balancer gives Services of type LoadBalancer their addresses, and publishes them.
//
// Start at New and [Balancer.Run], which makes one pass after another: it takes a snapshot of the caches, package allocator
// plans who has which address, package evaluation finds the status of each Service, and write.go writes what differs. Everything
// before the writing is a function of the snapshot. The Balancer is upstream's cloudprovider.LoadBalancer as well, which
// it answers from the last pass. [Release] gives everything back where load balancers are off.
//
// Reads: Services, Nodes, EndpointSlices, Namespaces, ServiceCIDRs, AddressPools, BGPPeers, NodeAgents, NodeAgentLeases,
// NodeAnnouncements, kube-proxy's ConfigMap, its claims, and what IPAMs of AddressPools answer (ipam.go).
// Writes: claims, which are IPAddress objects; annotation ccmadm.dev/allocated, condition
// ccmadm.dev/LoadBalancerReady, status and Events of Services, and the finalizer of those with our class; status of
// AddressPools and BGPPeers; on NodeAgents that report no more an annotation that takes their vote.
// Running it twice: the claims are the truth. A pass that ended in the middle is made again, and an address never moves
// unless its Service asks for it. Only the leader runs it; a claim that two create is the first one's.
// It will not: answer on the network, which agents do, or withdraw an address because the API server is away.
package balancer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/agents"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
	"github.com/ccmadm/ccmadm/provider/balancer/ipam"
	"github.com/ccmadm/ccmadm/provider/changes"
	"github.com/ccmadm/ccmadm/provider/controlplane"
	"github.com/ccmadm/ccmadm/provider/objects"
)

const (
	// tick is the longest time between two passes: reports grow old, and quarantines end.
	tick = 10 * time.Second
	// batch is how long a pass waits for changes that come together.
	batch = 10 * time.Millisecond
	// minRetry and maxRetry are the times after a pass that could not write something, and between two patches of a
	// Service that the API server refuses.
	minRetry, maxRetry = time.Second, 30 * time.Second
	// conflictTime is how long an address is not given that an IPAddress of another controller claims.
	conflictTime = time.Minute
)

// Settings are what a Balancer works with.
type Settings struct {
	// Client and Objects write as fast as the API server takes it.
	Client  kubernetes.Interface
	Objects *objects.Client
	// Nodes and Services are informers of the controller manager, which runs them.
	Nodes, Services cache.SharedIndexInformer
	Recorder        record.EventRecorder
	// Endpoint is the host at which the manager reaches the API server.
	Endpoint string
	// Listed returns the addresses that the inventory has of the Node's machine; nil where it has none.
	Listed func(*corev1.Node) []corev1.NodeAddress
	// Agents has what agents write beside their NodeAgents; nil: nothing.
	Agents *agents.Reader
	// NodeNetworks are those of the Nodes, where the configuration has them.
	NodeNetworks []netip.Prefix
	Now          func() time.Time
}

// Balancer serves Services of type LoadBalancer.
type Balancer struct {
	Settings
	caches *caches
	names  *controlplane.Lookups
	dirty  chan struct{}
	urgent chan struct{} // a user waits for the next pass
	awaits atomic.Bool   // a Service waits for agents to announce its address

	mu        sync.Mutex
	statuses  map[types.NamespacedName]*evaluation.Status // of the last pass
	released  map[types.UID]bool                          // Services whose load balancer was deleted
	missing   map[evaluation.Awaited]time.Time
	conflicts map[netip.Addr]time.Time
	refused   refusals
	ready     readiness
	prefixes  prefixes
	liveness  objects.Liveness
	silence   silenceWatch
	counted   map[types.UID]time.Time // when the status of an AddressPool was written last
	worked    time.Duration           // that the last pass took before it wrote
	counts    atomic.Pointer[counts]  // of the last pass; nil before the first
	ipam      *ipam.Keeper
	cleared   map[types.UID]bool // Services for which no IPAM has an address any more that no claim has, by the last pass
}

// New makes a Balancer. It sends no request.
func New(s Settings) (*Balancer, error) {
	b := &Balancer{
		Settings: s, caches: newCaches(s), names: controlplane.NewLookups(), dirty: make(chan struct{}, 1), urgent: make(chan struct{}, 1),
		released: map[types.UID]bool{}, missing: map[evaluation.Awaited]time.Time{}, conflicts: map[netip.Addr]time.Time{},
		refused: refusals{}, ready: readiness{}, prefixes: prefixes{}, liveness: objects.Liveness{}, counted: map[types.UID]time.Time{},
		silence: silenceWatch{liveness: objects.Liveness{}, told: map[string]string{}},
	}
	b.ipam = ipam.New(ipam.Settings{Tokens: ipamTokens(b.Client), Changed: b.hurry})
	if err := b.caches.follow(b.changed, b.hurry, b.reported); err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	if s.Agents != nil {
		if err := s.Agents.OnAnnouncements(b.reported); err != nil {
			return nil, fmt.Errorf("watch: %w", err)
		}
	}
	return b, nil
}

// EndpointSlices are those of the cluster, from the cache, and must not be changed; false: it has not synced yet.
func (b *Balancer) EndpointSlices() ([]*discoveryv1.EndpointSlice, bool) {
	return b.caches.endpoints(), b.caches.slices.HasSynced()
}

// changed asks for a pass.
func (b *Balancer) changed() {
	select {
	case b.dirty <- struct{}{}:
	default:
	}
}

// reported asks for a pass since agents have reported something else. Services may wait for that.
func (b *Balancer) reported() {
	if b.awaits.Load() {
		b.hurry()
	} else {
		b.changed()
	}
}

// hurry asks for a pass for which a call waits, or a new Service.
func (b *Balancer) hurry() {
	b.changed()
	select {
	case b.urgent <- struct{}{}:
	default:
	}
}

// Run makes passes until ctx is done.
func (b *Balancer) Run(ctx context.Context) {
	for _, w := range b.caches.own() {
		go w.RunWithContext(ctx)
	}
	go b.ipam.Run(ctx)
	var p changes.Pace
	retry := minRetry
	for next := tick; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(next):
		case <-b.dirty:
			if !changes.Sleep(ctx, batch) {
				return
			}
		}
		if b.caches.unknown() != nil || !b.Agents.Known() {
			next = time.Second
			continue
		}
		for len(b.urgent) > 0 {
			<-b.urgent // this is the pass
		}
		began := time.Now()
		wake, err := b.pass(ctx)
		pause, rest := p.After(began, time.Now(), b.worked)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			klog.ErrorS(err, "Failed to reconcile load balancers; retrying", "retry", retry)
			changes.Sleep(ctx, max(minRetry, pause, time.Since(began))) // whatever changes: the next pass may fail at as many writes
			next, retry = retry-minRetry, min(2*retry, maxRetry)
			continue
		}
		restAfter(ctx, pause, rest, b.urgent)
		next, retry = tick, minRetry
		if !wake.IsZero() {
			next = min(next, max(wake.Sub(b.Now()), batch))
		}
	}
}

// pass looks at everything once and writes what differs. It returns when to look again, if that is soon.
func (b *Balancer) pass(ctx context.Context) (time.Time, error) {
	now, began := b.Now(), time.Now()
	endpoints := b.names.Of(ctx, now, b.Endpoint, b.caches.proxyEndpoint())
	s, e := b.look(now, endpoints)
	p := allocator.Allocate(s)
	e.Plan = p
	statuses := e.Statuses()
	b.worked = time.Since(began)
	err := b.write(ctx, p, statuses, e.Machines.Proxy.There, forgotten(objects.List[*corev1.Service](b.caches.services.GetStore())))
	b.mu.Lock()
	b.statuses, b.cleared = statuses, clearedBy(s, p)
	b.mu.Unlock()
	b.ipam.Set(ordersOf(p, b.caches.clusterID(), b.caches.addressPools()))
	b.counts.Store(countsOf(e, statuses))
	b.awaits.Store(slices.ContainsFunc(slices.Collect(maps.Values(statuses)), func(st *evaluation.Status) bool {
		return !st.Complete && !st.Elsewhere && st.Problem == nil
	}))
	recount, failed := b.count(ctx, s, p, e.Reports.Agents)
	err = errors.Join(err, failed, b.markSilent(ctx)) // whatever else cannot be written: Services follow a prefix once it is in the status
	wake := sooner(p.Wake, recount, now)
	for _, since := range e.Missing {
		wake = sooner(wake, since.Add(evaluation.AnnounceTime), now)
	}
	for _, r := range b.refused {
		wake = sooner(wake, r.until, now)
	}
	wake = sooner(wake, b.prefixes.next(now), now)
	return sooner(wake, b.ready.next(), now), err
}

// sooner is the earlier of two moments, of which the first may be none, and the second is none if it was before now.
func sooner(wake, at, now time.Time) time.Time {
	if at.After(now) && (wake.IsZero() || at.Before(wake)) {
		return at
	}
	return wake
}

// look takes the snapshot.
func (b *Balancer) look(now time.Time, endpoints map[netip.Addr]bool) (*allocator.Snapshot, *evaluation.Inputs) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.caches
	hosts := allocator.HostsOf(objects.List[*corev1.Node](c.nodes.GetStore()), b.Listed)
	reported := b.Agents.Whole(c.nodeAgents())
	reports := evaluation.ReadReports(reported, b.Agents.Leases(), b.liveness, now, allocator.RankOf(hosts))
	e := &evaluation.Inputs{Now: now, Reports: reports, Missing: b.missing}
	e.Machines = evaluation.NewMachines(hosts, reports.Lately, c.endpoints())
	e.Machines.Reported, e.Machines.Namespaces, e.Machines.Lately = reported, c.namespaceLabels(), b.ready.observe(now, hosts)
	e.Machines.Plane = controlplane.Addresses{Endpoints: endpoints, Servers: controlplane.ServersOf(c.endpoints())}
	cidrs := c.serviceCIDRs()
	e.Machines.Routers = allocator.RoutersOf(objects.List[*v1alpha1.BGPPeer](c.peers.GetStore()), reports.Lately)
	b.prefixes.observe(now, c.addressPools(), hosts, reported, reports.Agents)
	e.Pools = allocator.ReadPools(c.addressPools(), hosts, cidrs, e.Machines.Plane, e.Machines.Routers)
	s := &allocator.Snapshot{
		Now: now, Nodes: e.Machines.Addresses, Pools: e.Pools, Peers: len(c.peers.GetStore().ListKeys()) > 0,
		Namespaces: e.Machines.Namespaces,
		Conflicts:  map[netip.Addr]bool{}, Lingering: map[netip.Addr]bool{}, Announced: reports.Announced, Present: c.present(),
		Plane: e.Machines.Plane, Leases: b.ipam.Leases(), Asked: map[types.UID][]allocator.LeaseKey{},
	}
	e.Machines.Proxy = c.proxyMode()
	e.Machines.Plausible(hosts, cidrs, s.Present, b.NodeNetworks)
	for address, since := range b.conflicts {
		if now.Sub(since) > conflictTime {
			delete(b.conflicts, address)
			continue
		}
		s.Conflicts[address] = true
	}
	there := map[types.UID]bool{}
	for _, service := range objects.List[*corev1.Service](c.services.GetStore()) {
		there[service.UID] = true
		s.Note(service)
		if keys := allocator.AskedOf(service); len(keys) > 0 {
			s.Asked[service.UID] = keys
		}
		if !b.released[service.UID] || service.Spec.LoadBalancerClass != nil {
			s.Known = append(s.Known, service)
		}
	}
	maps.DeleteFunc(b.released, func(uid types.UID, _ bool) bool { return !there[uid] })
	maps.DeleteFunc(b.refused, func(uid types.UID, _ refusal) bool { return !there[uid] })
	return s, e
}
