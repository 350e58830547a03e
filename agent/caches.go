package agent

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// caches are the informers of what the agent reads. They keep what they have while the API server does not answer.
type caches struct {
	nodes, services, slices, claims, pools, peers, agents cache.SharedIndexInformer
	passwords, tokens                                     *passwords
	apiServers                                            *apiServers
	starts                                                *starts
	reader                                                *reader
	unready                                               announce.Sightings
	heard                                                 atomic.Int64 // when there was the last event, in nanoseconds
	viewed                                                atomic.Int64 // when there was the last view, too
}

// freshFor is how long the API server counts as heard after an event. The manager that watches NodeAgentLeases makes one every 5
// seconds, and without it each agent one every 20 seconds.
const freshFor = 40 * time.Second

// viewEvery is how old a view becomes where events go on that do not matter to it.
const viewEvery = 5 * time.Second

// newCaches makes informers, and runs none.
func newCaches(config *rest.Config) (*caches, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	ours, err := objects.New(config)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	claims := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = networkingv1.LabelManagedBy + "=" + v1alpha1.ClaimManager
		}))
	c := &caches{
		nodes:    factory.Core().V1().Nodes().Informer(),
		services: factory.Core().V1().Services().Informer(),
		slices:   factory.Discovery().V1().EndpointSlices().Informer(),
		claims:   claims.Networking().V1().IPAddresses().Informer(),
		pools:    objects.Informer(ours.AddressPools, &v1alpha1.AddressPool{}),
		peers:    objects.Informer(ours.BGPPeers, &v1alpha1.BGPPeer{}),
		agents:   objects.Informer(ours.NodeAgents, &v1alpha1.NodeAgent{}),
	}
	if c.reader, err = newReader(client); err != nil {
		return nil, err
	}
	c.apiServers = newAPIServers(config, c.slices)
	c.passwords, c.tokens = newPasswords(client.CoreV1().Secrets(v1alpha1.Namespace),
		func() []*v1alpha1.BGPPeer { return objects.List[*v1alpha1.BGPPeer](c.peers.GetStore()) },
		func() []*v1alpha1.AddressPool { return objects.List[*v1alpha1.AddressPool](c.pools.GetStore()) })
	c.starts, c.unready = &starts{list: ours.NodeAgents.List}, announce.Sightings{}
	for _, informer := range c.all() {
		if err := informer.SetTransform(lean); err != nil {
			return nil, fmt.Errorf("prepare informer: %w", err)
		}
	}
	return c, nil
}

func (c *caches) all() []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{c.nodes, c.services, c.slices, c.claims, c.pools, c.peers, c.agents}
}

// run fills the caches until working is done, and calls poke whenever something in them has changed that matters to a
// view, or anything, if the last view is old: that a Node does not report shows with time. It returns when they are complete,
// which takes as long as the API server is away, or when ctx is done.
func (c *caches) run(ctx, working context.Context, poke func()) error {
	changed := func(matters bool) {
		now := time.Now()
		c.heard.Store(now.UnixNano())
		if matters || now.Sub(time.Unix(0, c.viewed.Load())) > viewEvery {
			poke()
		}
	}
	filters := c.filters()
	// Not among all: with permissions of an earlier release it never syncs.
	_, err := c.reader.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) { changed(false) }})
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	go c.reader.informer.RunWithContext(working)
	var synced []cache.InformerSynced
	for _, informer := range c.all() {
		matters := filters[informer]
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { changed(matters == nil || matters(nil, object)) },
			UpdateFunc: func(before, after any) { changed(matters == nil || matters(before, after)) },
			DeleteFunc: func(any) { changed(true) },
		})
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		synced = append(synced, registration.HasSynced)
		go informer.RunWithContext(working)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) || !c.starts.read(ctx) {
		klog.InfoS("Stopping before the caches have synced")
	}
	return nil
}

// view is what the caches have now.
func (c *caches) view(node string) *announce.View {
	now := time.Now()
	c.viewed.Store(now.UnixNano())
	v := &announce.View{
		Node:   node,
		Nodes:  byName[*corev1.Node](c.nodes),
		Agents: byName[*v1alpha1.NodeAgent](c.agents),
		Pools:  byName[*v1alpha1.AddressPool](c.pools),
		Peers:  byName[*v1alpha1.BGPPeer](c.peers),
		// Read apart from the others: an agent may not watch Secrets.
		Passwords: c.passwords.get(),
	}
	for _, object := range objects.List[*networkingv1.IPAddress](c.claims.GetStore()) {
		if claim, ok := announce.ParseClaim(object); ok {
			v.Claims = append(v.Claims, claim)
		}
	}
	v.Claims = c.apiServers.without(v.Claims)
	v.SetCandidates(announce.Endpoints{
		Services: byName[*corev1.Service](c.services),
		Slices:   objects.List[*discoveryv1.EndpointSlice](c.slices.GetStore()),
	})
	v.SetMembers(now, now.Sub(time.Unix(0, c.heard.Load())) < freshFor, c.unready)
	c.starts.fill(v)
	return v
}

// byName is keyed by name, or NAMESPACE/NAME.
func byName[T any](informer cache.SharedIndexInformer) map[string]T {
	store := informer.GetStore()
	typed := make(map[string]T, len(store.ListKeys()))
	for _, key := range store.ListKeys() {
		if object, there, _ := store.GetByKey(key); there { // a store of client-go has no error here
			typed[key] = object.(T)
		}
	}
	return typed
}
