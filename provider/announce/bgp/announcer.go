package bgp

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

	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
)

// sessionsEvery is how often sessions are looked at, for what changes without a session coming or going.
const sessionsEvery = 5 * time.Second

// Announcer announces addresses of level BGP to the routers of BGPPeers. Where none is for the Node, it does nothing at all.
type Announcer struct {
	log     logr.Logger
	changed func()
	poke    chan struct{}

	mu      sync.Mutex
	view    *announce.View
	speaker *Speaker
	report  v1alpha1.NodeAgentStatus

	// Run's own.
	addresses []netip.Addr // the speaker's
	routers   []Router
	problem   string // what the last view met with
	damping   damping
}

var _ announce.Announcer = (*Announcer)(nil)

// New makes an announcer that calls changed whenever its report has changed.
func New(log logr.Logger, changed func()) *Announcer {
	return &Announcer{log: log, changed: changed, poke: make(chan struct{}, 1), damping: damping{}}
}

// Run speaks with routers until ctx is done. It then leaves without a word, so that routers that agreed to a graceful
// restart keep their paths for the next agent on the Node.
func (a *Announcer) Run(ctx context.Context) error {
	ticker := time.NewTicker(sessionsEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			if s := a.current(); s != nil {
				return s.Close(context.WithoutCancel(ctx))
			}
			return nil
		case <-a.poke:
			a.note(a.apply(ctx))
		case <-ticker.C:
		}
		a.look(ctx)
	}
}

// Set is what [announce.Announcer] says.
func (a *Announcer) Set(view *announce.View) {
	a.mu.Lock()
	a.view = view
	a.mu.Unlock()
	a.again()
}

func (a *Announcer) again() {
	select {
	case a.poke <- struct{}{}:
	default: // the newest view will be seen anyway
	}
}

func (a *Announcer) current() *Speaker {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.speaker
}

// note logs an error once, however many views meet with it.
func (a *Announcer) note(err error) {
	before := a.problem
	a.problem = ""
	if err == nil {
		return
	}
	if a.problem = err.Error(); a.problem != before {
		a.log.Error(err, "Cannot announce by BGP")
	}
}

// apply makes the newest view true.
func (a *Announcer) apply(ctx context.Context) error {
	a.mu.Lock()
	view := a.view
	a.mu.Unlock()
	node := view.Nodes[view.Node]
	if node == nil { // it was deleted: a cache that cannot be renewed keeps it
		if speaker := a.current(); speaker != nil {
			return speaker.Drain(ctx)
		}
		return nil
	}
	a.routers = RoutersOf(node.Labels, slices.Collect(maps.Values(view.Peers)), view.Passwords, a.routers)
	if a.current() == nil && len(a.routers) == 0 {
		return nil
	}
	speaker, err := a.speak(ctx, node)
	if err != nil {
		return err
	}
	paths := pathsOf(view)
	if view.Draining && len(paths) == 0 || v1alpha1.Leaving(node) != "" {
		speaker.SetRouters(ctx, a.routers)
		return speaker.Drain(ctx)
	}
	err = speaker.SetPaths(paths)
	speaker.SetRouters(ctx, a.routers)
	return errors.Join(err, speaker.Resume()) // a path that is wrong keeps no other back
}

// speak returns the speaker. One that was made for other addresses makes place for a new one: routers that agreed to a
// graceful restart keep their paths meanwhile.
func (a *Announcer) speak(ctx context.Context, node *corev1.Node) (*Speaker, error) {
	speaker, addresses := a.current(), nodestatus.FirstOfEachFamily(nodestatus.InternalIPs(node))
	switch {
	case speaker != nil && (len(addresses) == 0 || slices.Equal(addresses, a.addresses)):
		return speaker, nil
	case len(addresses) == 0:
		return nil, fmt.Errorf("open sessions of Node/%s: it has no InternalIP", node.Name)
	case speaker != nil:
		a.log.Info("The addresses of the Node changed; opening sessions from the new ones", "before", a.addresses, "now", addresses)
		if err := speaker.Close(ctx); err != nil {
			a.log.Error(err, "Cannot close sessions of former addresses")
		}
	}
	speaker, err := NewSpeaker(ctx, a.log, addresses, a.again)
	a.addresses = addresses
	a.mu.Lock()
	defer a.mu.Unlock()
	a.speaker = speaker
	return speaker, err
}

// look renews the report.
func (a *Announcer) look(ctx context.Context) {
	var report v1alpha1.NodeAgentStatus
	a.mu.Lock()
	starting := a.view != nil && a.view.Starting
	a.mu.Unlock()
	if speaker := a.current(); speaker != nil {
		var without []string
		report.Draining = starting
		report.Sessions, without = a.damping.damp(time.Now(), speaker.Sessions(ctx))
		for _, prefix := range speaker.Announced(ctx, without...) {
			announced := v1alpha1.Announcement{Address: prefix.Addr().String(), Level: v1alpha1.LevelBGP}
			report.Announcements = append(report.Announcements, announced)
		}
	} else {
		for _, r := range a.routers {
			report.Sessions = append(report.Sessions, v1alpha1.BGPSession{Peer: r.Name, State: stateIdle, Message: a.problem})
		}
	}
	a.mu.Lock()
	same := report.Draining == a.report.Draining && slices.Equal(report.Sessions, a.report.Sessions) &&
		slices.Equal(report.Announcements, a.report.Announcements)
	a.report = report
	a.mu.Unlock()
	if !same {
		a.changed()
	}
}

// Report is what [announce.Announcer] says.
func (a *Announcer) Report(status *v1alpha1.NodeAgentStatus) {
	a.mu.Lock()
	defer a.mu.Unlock()
	status.Draining = status.Draining || a.report.Draining
	status.Sessions = append(status.Sessions, a.report.Sessions...)
	status.Announcements = append(status.Announcements, a.report.Announcements...)
}

// Drain withdraws everything if the Node goes. An agent that is merely started again gives nothing away: the Node
// forwards without it, and a connection that is moved to another Node and back is broken twice.
func (a *Announcer) Drain(ctx context.Context) {
	a.mu.Lock()
	view, speaker := a.view, a.speaker
	a.mu.Unlock()
	if speaker == nil || view == nil {
		return
	}
	if node := view.Nodes[view.Node]; node != nil && v1alpha1.Leaving(node) == "" {
		return // what a Node that drains has given to others is withdrawn already
	}
	if err := speaker.Drain(ctx); err != nil {
		a.log.Error(err, "Cannot withdraw by BGP")
	}
}

// pathsOf are those of the addresses that the Node may announce by BGP: of one that drains or starts, those that no other does.
// Where kube-proxies are sick on all Nodes, their rules of before still forward more than nobody does.
func pathsOf(v *announce.View) []Path {
	var paths []Path
	for _, c := range v.Claims {
		if c.Level != v1alpha1.LevelBGP || !c.Here(v.Node) || (v.Draining || v.Starting) && relieved(v, c) {
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

// relieved reports whether another Node announces the address by BGP: by its report it speaks with a router, and does not
// drain, and its kubelet is heard.
func relieved(v *announce.View, c announce.Claim) bool {
	return slices.ContainsFunc(c.Candidates, func(name string) bool {
		agent := v.Agents[name]
		return name != v.Node && agent != nil && !agent.Status.Draining && !slices.Contains(v.Silent, name) && Speaks(agent)
	})
}
