package announce

import (
	"context"
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
			if err := b.apply(ctx); err != nil {
				b.log.Error(err, "Cannot announce by BGP")
			}
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

// apply makes the newest view true.
func (b *BGP) apply(ctx context.Context) error {
	b.mu.Lock()
	view, speaker := b.view, b.speaker
	b.mu.Unlock()
	node := view.Nodes[view.Node]
	if node == nil { // it was deleted: a cache that cannot be renewed keeps it
		if speaker == nil {
			return nil
		}
		return speaker.Drain(ctx)
	}
	routers := RoutersOf(node.Labels, slices.Collect(maps.Values(view.Peers)), view.Passwords)
	if speaker == nil {
		if len(routers) == 0 {
			return nil
		}
		var err error
		if speaker, err = NewSpeaker(ctx, b.log, internalAddresses(node), b.again); err != nil {
			return err
		}
		b.mu.Lock()
		b.speaker = speaker
		b.mu.Unlock()
	}
	if view.Draining || leaving(node) {
		speaker.SetRouters(ctx, routers)
		return speaker.Drain(ctx)
	}
	err := speaker.SetPaths(view.paths())
	speaker.SetRouters(ctx, routers)
	if err != nil {
		return err
	}
	return speaker.Resume()
}

// look renews the report.
func (b *BGP) look(ctx context.Context) {
	speaker := b.current()
	if speaker == nil {
		return
	}
	var report v1alpha1.NodeAgentStatus
	report.Sessions = speaker.Sessions(ctx)
	for _, prefix := range speaker.Announced(ctx) {
		announced := v1alpha1.Announcement{Address: prefix.Addr().String(), Level: v1alpha1.LevelBGP}
		report.Announcements = append(report.Announcements, announced)
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
	if node := view.Nodes[view.Node]; !view.Draining && node != nil && !leaving(node) {
		return
	}
	if err := speaker.Drain(ctx); err != nil {
		b.log.Error(err, "Cannot withdraw by BGP")
	}
}

// paths are those of the addresses that the Node may announce by BGP.
func (v *View) paths() []Path {
	var paths []Path
	for _, c := range v.Claims {
		if c.Level != v1alpha1.LevelBGP || !c.Here(v.Node) {
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
