package vip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/agent/metrics"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce/bgp"
	"github.com/ccmadm/ccmadm/provider/changes"
)

const (
	// withdrawTime is for packets that were sent here before routers took in a withdrawal. A busy router needs more than
	// 200 ms to write its forwarding table.
	withdrawTime = time.Second
	// settleInterval is between tries of what could not be done: the kernel may refuse at the moment.
	settleInterval = time.Second
	// knownAfter is when an API server that asks everybody who they are has begun, which it never says to this program.
	knownAfter = 10 * time.Second
)

// bgpHolder has the control plane's own address on lo, and announces it to routers, while this machine's API server
// answers. It asks nobody: routers spread connections over all that announce it. Where the API server does not answer
// it withdraws the address whatever others do, as it learns nothing of them.
type bgpHolder struct {
	address netip.Addr
	speaker *bgp.Speaker
	health  *health

	since time.Time // the API server answers

	mu      sync.Mutex
	healthy bool
	problem string // why the machine cannot do what is wanted
}

// runByBGP announces the address until ctx is done, and then withdraws it.
func runByBGP(ctx context.Context, o Options) error {
	health, err := newHealth(o.CAFile, o.APIServerPort)
	if err != nil {
		return err
	}
	changed, poke := changes.New()
	h, err := newBGPHolder(ctx, o, poke)
	if err != nil {
		return err
	}
	h.health = health
	working, stop := context.WithCancel(context.WithoutCancel(ctx)) // it withdraws before it ends
	defer stop()
	group, working := errgroup.WithContext(working)
	ctx, end := context.WithCancel(ctx) // what fails ends the rest: the kubelet starts it again
	defer context.AfterFunc(working, end)()
	report := func() v1alpha1.VIPReport { return h.report(working) }
	registerMetrics(report)
	group.Go(func() error {
		ready := func() error { return h.state(working) }
		return metrics.Server{Address: o.MetricsAddress, Ready: ready, Paths: answer(report)}.Serve(working)
	})
	group.Go(func() error { changes.Follow(working, working, changed, func() { h.logSessions(working) }); return nil })
	settled := make(chan struct{})
	group.Go(func() error {
		defer close(settled)
		wait.UntilWithContext(ctx, func(context.Context) { h.retry() }, settleInterval)
		return nil
	})
	group.Go(func() error {
		defer stop()
		health.watch(ctx, func(healthy bool) error { return h.hold(ctx, healthy) })
		<-settled // it would bring back what is released
		return h.release(working)
	})
	return group.Wait()
}

func newBGPHolder(ctx context.Context, o Options, changed func()) (*bgpHolder, error) {
	var routers []bgp.Router
	for _, spec := range o.BGP.PeerSpecs() {
		routers = append(routers, bgp.Router{Name: cmp.Or(spec.Address, spec.Interface), BGPPeerSpec: spec})
	}
	speaker, err := bgp.NewSpeaker(ctx, klog.Background().WithName("bgp"), []netip.Addr{o.NodeAddress}, changed)
	if err != nil {
		return nil, err
	}
	speaker.SetRouters(ctx, routers)
	return &bgpHolder{address: o.Address, speaker: speaker}, nil
}

// errStarting says that an API server answers, and does not know yet who may do what.
var errStarting = errors.New("the API server of this machine is starting")

// hold is called with each change of the API server's health, and again while one that answers is starting: routers
// would send it a share of all clients at once, which it refuses.
func (h *bgpHolder) hold(ctx context.Context, healthy bool) error {
	if !healthy {
		h.since = time.Time{}
	} else if h.starting(ctx) {
		return errStarting
	}
	klog.InfoS("API server of this machine", "healthy", healthy)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.healthy = healthy
	h.settle()
	return nil
}

// retry settles what could not be, or is no more as it was.
func (h *bgpHolder) retry() {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, there, err := onLo(h.address)
	if h.problem != "" || err == nil && (len(there) > 0) != h.healthy {
		h.settle()
	}
}

// starting reports whether the API server, which answers, is not ready. One that never says so is taken for it after a
// while.
func (h *bgpHolder) starting(ctx context.Context) bool {
	if h.since.IsZero() {
		h.since = time.Now()
	}
	return time.Since(h.since) < knownAfter && !h.health.ready(ctx)
}

// settle has the address on lo and announced, or neither. Routers go first where it goes, and last where it comes. What
// fails is the problem, and tried again. Its caller holds mu.
func (h *bgpHolder) settle() {
	var err error
	if !h.healthy {
		err = errors.Join(h.speaker.SetPaths(nil), removeFromLoopback(h.address))
	} else if err = addToLoopback(h.address); err == nil {
		err = h.speaker.SetPaths([]bgp.Path{{Prefix: netip.PrefixFrom(h.address, h.address.BitLen())}})
	}
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	if problem != "" && problem != h.problem {
		klog.ErrorS(err, "Cannot announce or withdraw the control plane VIP", "healthy", h.healthy)
	}
	h.problem = problem
}

// release lets routers choose other control planes while this one still answers.
func (h *bgpHolder) release(ctx context.Context) error {
	drained, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	err := h.speaker.Drain(drained)
	changes.Sleep(drained, withdrawTime)
	return errors.Join(err, removeFromLoopback(h.address), h.speaker.Close(ctx))
}

// state is why no router has the address from this machine; nil: one has.
func (h *bgpHolder) state(ctx context.Context) error {
	if len(h.speaker.Announced(ctx)) > 0 {
		return nil
	}
	h.mu.Lock()
	healthy, problem := h.healthy, h.problem
	h.mu.Unlock()
	if !healthy {
		return errors.New("the API server of this machine does not answer, or is starting")
	}
	why := []string{"no router has the address"}
	if problem != "" {
		why = append(why, problem)
	}
	for _, s := range h.speaker.Sessions(ctx) {
		why = append(why, strings.TrimSuffix(fmt.Sprintf("session with %s is %s: %s", s.Peer, s.State, s.Message), ": "))
	}
	return errors.New(strings.Join(why, "; "))
}

func (h *bgpHolder) logSessions(ctx context.Context) {
	for _, s := range h.speaker.Sessions(ctx) {
		klog.InfoS("Session", "router", s.Peer, "state", s.State, "bfd", s.BFD, "message", s.Message)
	}
}
