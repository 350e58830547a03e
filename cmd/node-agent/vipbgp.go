package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
)

// withdrawTime is for packets that were sent here before routers took in a withdrawal.
const withdrawTime = 200 * time.Millisecond

// bgpHolder has the control plane's own address on lo, and announces it to routers, while this machine's API server
// answers. It asks nobody: routers spread connections over all that announce it. Where the API server does not answer
// it withdraws the address whatever others do, as it learns nothing of them.
type bgpHolder struct {
	address netip.Addr
	speaker *announce.Speaker
	healthy atomic.Bool
}

// runVIPByBGP announces the address until ctx is done, and then withdraws it.
func runVIPByBGP(ctx context.Context, o vipOptions) error {
	health, err := newHealth(o.caFile, o.apiServerPort)
	if err != nil {
		return err
	}
	changed, poke := notices()
	h, err := newBGPHolder(ctx, o, poke)
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(context.WithoutCancel(ctx)) // it withdraws before it ends
	defer stop()
	group, working := errgroup.WithContext(working)
	ctx, end := context.WithCancel(ctx) // what fails ends the rest: the kubelet starts it again
	defer context.AfterFunc(working, end)()
	group.Go(func() error { return serve(working, o.metricsAddress, func() error { return h.state(working) }) })
	group.Go(func() error { follow(working, working, changed, func() { h.logSessions(working) }); return nil })
	group.Go(func() error {
		defer stop()
		health.watch(ctx, h.hold)
		return h.release(working)
	})
	return group.Wait()
}

func newBGPHolder(ctx context.Context, o vipOptions, changed func()) (*bgpHolder, error) {
	address, here, err := o.addresses()
	if err != nil {
		return nil, err
	}
	var bgp v1alpha1.ControlPlaneVIPBGP
	if err := yaml.UnmarshalStrict([]byte(o.bgp), &bgp); err != nil {
		return nil, fmt.Errorf("--bgp: %w", err)
	}
	var routers []announce.Router
	for _, spec := range bgp.PeerSpecs() {
		routers = append(routers, announce.Router{Name: spec.Address, BGPPeerSpec: spec})
	}
	speaker, err := announce.NewSpeaker(ctx, klog.Background().WithName("bgp"), []netip.Addr{here}, changed)
	if err != nil {
		return nil, err
	}
	speaker.SetRouters(ctx, routers)
	return &bgpHolder{address: address, speaker: speaker}, nil
}

// hold is called with each change of the API server's health, and again after an error. Routers go first where the
// address goes, and last where it comes.
func (h *bgpHolder) hold(healthy bool) error {
	klog.InfoS("API server of this machine", "healthy", healthy)
	h.healthy.Store(healthy)
	if !healthy {
		return errors.Join(h.speaker.SetPaths(nil), removeFromLoopback(h.address))
	}
	if err := addToLoopback(h.address); err != nil {
		klog.ErrorS(err, "The API server of this machine answers, and the machine cannot have the address")
		return err
	}
	return h.speaker.SetPaths([]announce.Path{{Prefix: netip.PrefixFrom(h.address, h.address.BitLen())}})
}

// release lets routers choose other control planes while this one still answers.
func (h *bgpHolder) release(ctx context.Context) error {
	drained, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	err := h.speaker.Drain(drained)
	sleep(drained, withdrawTime)
	return errors.Join(err, removeFromLoopback(h.address), h.speaker.Close(ctx))
}

// state is why no router has the address from this machine; nil: one has.
func (h *bgpHolder) state(ctx context.Context) error {
	if len(h.speaker.Announced(ctx)) > 0 {
		return nil
	}
	if !h.healthy.Load() {
		return errors.New("the API server of this machine does not answer")
	}
	why := []string{"no router has the address"}
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
