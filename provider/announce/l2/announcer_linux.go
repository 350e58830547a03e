// Package l2 answers ARP and NDP for addresses of level L2, from the Node that owns each.
//
// Start at [Announcer]: it opens sockets on interfaces as addresses need them (segment), does and says what an owner has to
// (ownership), follows the kernel's links, and carries the datagrams of package quorum, which says what this Node owns.
//
// Reads: an [announce.View], heartbeats of other agents, ARP and NDP of the network, the machine's interfaces.
// Writes: datagrams and frames; nothing in the cluster and nothing in the kernel.
// Running it twice: nothing stays behind on a machine.
// It will not: put an address on an interface, or answer for one that a majority has not granted.
package l2

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sync/errgroup"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
	"github.com/ccmadm/ccmadm/provider/announce/quorum"
)

// Options are what an Announcer needs to know.
type Options struct {
	// Node is the name of its own.
	Node string
	// Key is the cluster's, for heartbeats.
	Key []byte
	// Listen is where heartbeats are received. Default: all addresses.
	Listen netip.Addr
	// Port is the one for heartbeats on every Node.
	Port uint16
	// Changed is called when the report has changed. It must not wait.
	Changed func()
	// KeepVoters says that a new list of voters is acted on once a report with it is [Announcer.Written].
	KeepVoters bool
	// Conflict is called when a machine answers for an address who is no agent. It must not wait.
	Conflict func(claim announce.Claim, conflict v1alpha1.AddressConflict)
	// Taken is called when this Node begins to announce an address, and Lost with the first step that finds that it no longer owns
	// one. They must not wait. Default: they do nothing.
	Taken, Lost func(netip.Addr)
	// Namespace is the network namespace. Default: where the process is.
	Namespace netns.NsHandle
	Log       logr.Logger
}

// Announcer answers ARP and NDP for the addresses of level L2 that this Node owns.
type Announcer struct {
	Options

	poke chan struct{}
	// refresh asks for the interfaces to be read again.
	refresh chan struct{}
	// addresses lists those of the machine.
	addresses func() ([]netlink.Addr, error)

	mu         sync.Mutex
	quorum     *quorum.Member
	view       *announce.View
	agents     map[string]string // Nodes by the MACs of their interfaces
	hearts     *heartbeats
	interfaces []v1alpha1.AgentInterface
	usable     map[string]sameLink // those, and others without an address
	read       bool                // interfaces were, at least once
	whole      bool                // also all of their addresses, or they change all the time: reports may have them
	partials   int                 // readings in a row that were partial; only the goroutine that reads has it
	segments   map[string]*segment
	owned      map[netip.Addr]*ownership
	unable     map[netip.Addr]quorum.Instant // addresses that are left to other Nodes, and when to try again to answer for them
	conflicts  map[netip.Addr]v1alpha1.AddressConflict
	discovery  discovery
	local      map[netip.Addr][]string        // the machine's own addresses, with their interfaces
	told       map[v1alpha1.KernelAnswer]bool // for which its kernel answers
	keeping    keeping
	unsent     unsent
	elsewhere  bool           // interfaces or pools have changed: an address may be answered for on another interface
	left       bool           // everything was given away, and nothing is taken any more
	look       quorum.Instant // when to look at all addresses again
	counts     Counts
	forged     atomic.Uint64
	unverified atomic.Uint64
}

// Counts are for metrics.
type Counts struct {
	// Owned is how many addresses the Node owns now, and Conflicts for how many another program answers.
	Owned, Conflicts int
	// Votes is how many Nodes have a vote on owners, and Unheard from how many of them no heartbeat arrives.
	Votes, Unheard int
	// Takeovers is how often it became an owner, Forged how many datagrams were not signed with the key, and Unverified how many were too many
	// to find out.
	Takeovers, Forged, Unverified uint64
}

var _ announce.Announcer = (*Announcer)(nil)

// New makes an announcer.
func New(o Options) *Announcer {
	now := bootTime()
	if o.Namespace == 0 { // a handle is a file descriptor, of which 0 is standard input
		o.Namespace = netns.None()
	}
	if o.Taken == nil {
		o.Taken, o.Lost = func(netip.Addr) {}, func(netip.Addr) {}
	}
	return &Announcer{
		Options: o, poke: make(chan struct{}, 1), refresh: make(chan struct{}, 1),
		quorum:   quorum.New(o.Node, uint64(time.Now().UnixNano()), now),
		segments: map[string]*segment{}, owned: map[netip.Addr]*ownership{}, conflicts: map[netip.Addr]v1alpha1.AddressConflict{},
		unable: map[netip.Addr]quorum.Instant{}, unsent: unsent{},
		discovery: discovery{known: map[string]bool{}, heardAt: map[string]netip.Addr{}}, addresses: listAddresses,
	}
}

// Run answers until ctx is done.
func (l *Announcer) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	var hearts *heartbeats
	err := enter(l.Namespace, func() (err error) {
		hearts, err = listen(ctx, l.Key, l.Listen, l.Port)
		return err
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.hearts = hearts
	l.mu.Unlock()
	defer context.AfterFunc(ctx, func() { _ = hearts.conn.Close() })()
	group.Go(func() error { hearts.receive(l.take, l.refused); return nil })
	group.Go(func() error { l.followInterfaces(ctx); return nil })
	group.Go(func() error { l.readAlways(ctx); return nil })
	group.Go(func() error { return l.loop(ctx) })
	err = group.Wait()
	l.closeAll()
	if ctx.Err() != nil {
		return nil // it was told to end
	}
	return err
}

// wake lets a loop run once more.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it will anyway
	}
}

// longestPause keeps heartbeats in time where steps do not come to their end for other reasons.
const longestPause = quorum.HeartbeatInterval / 5

// loop makes all steps, one for however much has changed.
func (l *Announcer) loop(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		poked := false
		select {
		case <-ctx.Done():
			return nil
		case <-l.poke:
			poked = true
		case <-timer.C:
		}
		l.mu.Lock()
		began := bootTime()
		next := l.step(poked)
		took := bootTime() - began
		l.mu.Unlock()
		timer.Reset(next)
		// With a thousand addresses a step takes milliseconds. As long again is for reading what others say: else the socket
		// overflows with it, and members count as dead that are only not heard.
		time.Sleep(min(took, longestPause))
	}
}

// Set is what [announce.Announcer] says.
func (l *Announcer) Set(view *announce.View) {
	agents := agentsByMAC(view, l.Node)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.view, l.agents, l.elsewhere = view, agents, true
	l.discovery.learn(view.Addresses)
	l.members(view)
	l.quorum.SetDraining(view.Draining)
	wake(l.poke)
}

// Drain is what [announce.Announcer] says.
func (l *Announcer) Drain(ctx context.Context) {
	for l.others() && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for address := range l.owned {
		l.quorum.Drop(bootTime(), address)
	}
	l.left = true
	l.step(true)
}

// others reports whether this Node still has what another one could take.
func (l *Announcer) others() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.quorum.SetDraining(true)
	wake(l.poke)
	if l.view == nil {
		return false
	}
	now := bootTime()
	return slices.ContainsFunc(l.view.Claims, func(c announce.Claim) bool {
		return l.owned[c.Address] != nil && !l.quorum.Alone(now, quorumClaim(c))
	})
}

// take is called with each datagram, and reports whether it is new.
func (l *Announcer) take(d *quorum.Datagram, from netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := bootTime()
	fresh := l.quorum.Receive(now, d)
	// One that was recorded, and is sent again from elsewhere, moves no agent that is heard. The first one of an agent is not new either: to
	// echo a stamp it has to be answered.
	if alive := l.quorum.Alive(now, d.From); d.To == l.Node && (fresh || !alive) {
		l.discovery.hear(d.From, from, alive || l.quorum.Draining(l.Node))
	}
	if len(d.Operations) > 0 || l.quorum.Hurried() {
		wake(l.poke)
	}
	return fresh
}

// refused is called with each other one. It does not take the lock: in a flood there are hundreds of thousands a second.
func (l *Announcer) refused(from netip.AddrPort, err error) {
	count, what := &l.forged, "Rejected a heartbeat"
	if errors.Is(err, errFlood) {
		count, what = &l.unverified, "Did not verify a heartbeat"
	}
	if n := count.Add(1); n&(n-1) == 0 { // the first, the second, the fourth ...
		l.Log.Info(what, "from", from, "reason", err.Error(), "refused", n)
	}
}

// step brings everything up to date; addresses, where something has changed or is due. The caller has the lock.
func (l *Announcer) step(changed bool) time.Duration {
	now := bootTime()
	if l.quorum.Changed(now) || changed || now >= l.look {
		claims := l.claims(now)
		l.quorum.Reconcile(now, quorumClaims(claims))
		l.look = now + min(l.quorum.Tick(now), l.own(now, claims))
	}
	l.tellLists()
	for _, d := range l.quorum.Datagrams(now) {
		if to := l.addressOf(d.To); to.IsValid() && l.hearts != nil {
			if err := l.hearts.send(d, to); l.unsent.note(d.To, err) {
				l.Log.Error(err, "Cannot send heartbeats to a Node")
			}
		}
	}
	return min(l.look-now, l.quorum.UntilHeartbeat(now))
}

// quorumClaims are the claims as the quorum takes them.
func quorumClaims(claims []announce.Claim) []quorum.Claim {
	list := make([]quorum.Claim, len(claims))
	for i, c := range claims {
		list[i] = quorumClaim(c)
	}
	return list
}

func quorumClaim(c announce.Claim) quorum.Claim {
	return quorum.Claim{
		Address: c.Address, Candidates: c.Candidates, Ending: c.Ending, Preferred: c.Preferred, ReturnAfter: c.ReturnAfter, Early: c.Early,
	}
}

// jitter keeps agents from speaking all at once.
func jitter(d time.Duration) time.Duration { return d*9/10 + rand.N(d/5) } //nolint:gosec // nobody gains by guessing it
