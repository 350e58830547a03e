package announce

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// sessionsEvery is how often sessions are looked at, for what changes without a session coming or going.
const sessionsEvery = 5 * time.Second

// BGP announces addresses of level BGP to the routers of BGPPeers. Where none is for the Node, it does nothing at all.
type BGP struct {
	log     logr.Logger
	changed func()
	poke    chan struct{}

	mu      sync.Mutex
	view    *View
	speaker *Speaker
	report  v1alpha1.NodeAgentStatus

	// Run's own.
	addresses []netip.Addr // the speaker's
	routers   []Router
	problem   string // what the last view met with
}

var _ Announcer = (*BGP)(nil)

// NewBGP makes an announcer that calls changed whenever its report has changed.
func NewBGP(log logr.Logger, changed func()) *BGP {
	return &BGP{log: log, changed: changed, poke: make(chan struct{}, 1)}
}

// Run speaks with routers until ctx is done. It then leaves without a word, so that routers that agreed to a graceful
// restart keep their paths for the next agent on the Node.
func (b *BGP) Run(ctx context.Context) error {
	ticker := time.NewTicker(sessionsEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			if s := b.current(); s != nil {
				return s.Close(context.WithoutCancel(ctx))
			}
			return nil
		case <-b.poke:
			b.note(b.apply(ctx))
		case <-ticker.C:
		}
		b.look(ctx)
	}
}

// Set is what [Announcer] says.
func (b *BGP) Set(view *View) {
	b.mu.Lock()
	b.view = view
	b.mu.Unlock()
	b.again()
}

func (b *BGP) again() {
	select {
	case b.poke <- struct{}{}:
	default: // the newest view will be seen anyway
	}
}

func (b *BGP) current() *Speaker {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.speaker
}

// note logs an error once, however many views meet with it.
func (b *BGP) note(err error) {
	before := b.problem
	b.problem = ""
	if err == nil {
		return
	}
	if b.problem = err.Error(); b.problem != before {
		b.log.Error(err, "Cannot announce by BGP")
	}
}

// apply makes the newest view true.
func (b *BGP) apply(ctx context.Context) error {
	b.mu.Lock()
	view := b.view
	b.mu.Unlock()
	node := view.Nodes[view.Node]
	if node == nil { // it was deleted: a cache that cannot be renewed keeps it
		if speaker := b.current(); speaker != nil {
			return speaker.Drain(ctx)
		}
		return nil
	}
	b.routers = RoutersOf(node.Labels, slices.Collect(maps.Values(view.Peers)), view.Passwords, b.routers)
	if b.current() == nil && len(b.routers) == 0 {
		return nil
	}
	speaker, err := b.speak(ctx, node)
	if err != nil {
		return err
	}
	paths := view.paths()
	if view.Draining && len(paths) == 0 || v1alpha1.Leaving(node) != "" {
		speaker.SetRouters(ctx, b.routers)
		return speaker.Drain(ctx)
	}
	err = speaker.SetPaths(paths)
	speaker.SetRouters(ctx, b.routers)
	return errors.Join(err, speaker.Resume()) // a path that is wrong keeps no other back
}

// speak returns the speaker. One that was made for other addresses makes place for a new one: routers that agreed to a
// graceful restart keep their paths meanwhile.
func (b *BGP) speak(ctx context.Context, node *corev1.Node) (*Speaker, error) {
	speaker, addresses := b.current(), hops(node)
	switch {
	case speaker != nil && (len(addresses) == 0 || slices.Equal(addresses, b.addresses)):
		return speaker, nil
	case len(addresses) == 0:
		return nil, fmt.Errorf("speak from Node/%s: it has no InternalIP", node.Name)
	case speaker != nil:
		b.log.Info("The Node has other addresses; speaking from them", "before", b.addresses, "now", addresses)
		if err := speaker.Close(ctx); err != nil {
			b.log.Error(err, "Cannot end sessions of former addresses")
		}
	}
	speaker, err := NewSpeaker(ctx, b.log, addresses, b.again)
	b.addresses = addresses
	b.mu.Lock()
	defer b.mu.Unlock()
	b.speaker = speaker
	return speaker, err
}

// look renews the report.
func (b *BGP) look(ctx context.Context) {
	var report v1alpha1.NodeAgentStatus
	if speaker := b.current(); speaker != nil {
		report.Sessions = speaker.Sessions(ctx)
		for _, prefix := range speaker.Announced(ctx) {
			announced := v1alpha1.Announcement{Address: prefix.Addr().String(), Level: v1alpha1.LevelBGP}
			report.Announcements = append(report.Announcements, announced)
		}
	} else {
		for _, r := range b.routers {
			report.Sessions = append(report.Sessions, v1alpha1.BGPSession{Peer: r.Name, State: stateIdle, Message: b.problem})
		}
	}
	b.mu.Lock()
	same := slices.Equal(report.Sessions, b.report.Sessions) && slices.Equal(report.Announcements, b.report.Announcements)
	b.report = report
	b.mu.Unlock()
	if !same {
		b.changed()
	}
}

// Report is what [Announcer] says.
func (b *BGP) Report(status *v1alpha1.NodeAgentStatus) {
	b.mu.Lock()
	defer b.mu.Unlock()
	status.Sessions = append(status.Sessions, b.report.Sessions...)
	status.Announcements = append(status.Announcements, b.report.Announcements...)
}

// Drain withdraws everything if the Node goes. An agent that is merely started again gives nothing away: the Node
// forwards without it, and a connection that is moved to another Node and back is broken twice.
func (b *BGP) Drain(ctx context.Context) {
	b.mu.Lock()
	view, speaker := b.view, b.speaker
	b.mu.Unlock()
	if speaker == nil || view == nil {
		return
	}
	if node := view.Nodes[view.Node]; node != nil && v1alpha1.Leaving(node) == "" {
		return // what a Node that drains has given to others is withdrawn already
	}
	if err := speaker.Drain(ctx); err != nil {
		b.log.Error(err, "Cannot withdraw by BGP")
	}
}

// paths are those of the addresses that the Node may announce by BGP: of one that drains, those that no other does.
// Where kube-proxies are sick on all Nodes, their rules of before still forward more than nobody does.
func (v *View) paths() []Path {
	var paths []Path
	for _, c := range v.Claims {
		if c.Level != v1alpha1.LevelBGP || !c.Here(v.Node) || v.Draining && v.relieved(c) {
			continue
		}
		path := Path{Prefix: netip.PrefixFrom(c.Address, c.Address.BitLen())}
		if pool := v.Pools[c.Pool]; pool != nil {
			path.Communities, path.LocalPref = pool.Spec.BGP.Communities, pool.Spec.BGP.LocalPref
		}
		paths = append(paths, path)
	}
	return paths
}

// relieved says whether another Node announces the address by BGP: by its report it speaks with a router, and does not
// drain, and its kubelet is heard.
func (v *View) relieved(c Claim) bool {
	return slices.ContainsFunc(c.Candidates, func(name string) bool {
		agent := v.Agents[name]
		return name != v.Node && agent != nil && !agent.Status.Draining && !slices.Contains(v.Silent, name) && Speaks(agent)
	})
}

// internalAddresses of a Node, in its order.
func internalAddresses(node *corev1.Node) []netip.Addr {
	var addresses []netip.Addr
	for _, a := range node.Status.Addresses {
		if parsed, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
			addresses = append(addresses, parsed)
		}
	}
	return addresses
}

// hops are what a Node speaks from: its first InternalIP of each family.
func hops(node *corev1.Node) []netip.Addr {
	var list []netip.Addr
	for _, a := range internalAddresses(node) {
		if _, there := first(list, a.Is4()); !there {
			list = append(list, a)
		}
	}
	return list
}
