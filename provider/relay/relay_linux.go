package relay

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/vishvananda/netns"
)

const (
	// repairTime is how long the table may be gone that somebody else has removed: "nft flush ruleset" does.
	repairTime = 10 * time.Second
	// retryTime is the pause after an error.
	retryTime = time.Second
	// lingerTime is how long connections may go on when the agent ends.
	lingerTime = 5 * time.Second
)

// Options are what a Relay needs to know.
type Options struct {
	// Port of the listener, on all addresses of the machine.
	Port uint16
	// Namespace is the network namespace. Default: where the process is.
	Namespace netns.NsHandle
	// Changed is called when Ready is another one. It must not wait.
	Changed func()
	Log     logr.Logger
}

// Relay carries connections to addresses of level Proxy.
type Relay struct {
	Options
	poke     chan struct{}
	failures failures

	mu        sync.Mutex
	frontends map[netip.AddrPort]*Frontend
	local     []netip.Addr
	owned     map[netip.Addr]bool
	carried   map[netip.Addr]bool
	ready     bool
	open      map[netip.AddrPort]int
	counts    Counts

	// Run's own.
	repair    time.Duration         // repairTime; less in tests
	listeners map[bool]net.Listener // true is IPv6
	applied   []redirect
	written   time.Time // when applied was; zero: a table of before may be there
	problem   string
	serving   sync.WaitGroup
}

// Counts are for metrics.
type Counts struct {
	// Open connections, and how many were Refused since there were too many.
	Open    int
	Refused uint64
}

// New makes a Relay.
func New(o Options) *Relay {
	if o.Namespace == 0 { // a handle is a file descriptor, of which 0 is standard input
		o.Namespace = netns.None()
	}
	return &Relay{
		Options: o, repair: repairTime, poke: make(chan struct{}, 1), failures: failures{at: map[netip.AddrPort]time.Time{}},
		carried: map[netip.Addr]bool{}, open: map[netip.AddrPort]int{}, listeners: map[bool]net.Listener{},
	}
}

// Set replaces what there is to carry in the cluster, whoever owns it, and the addresses of this machine. It does not
// wait.
func (r *Relay) Set(frontends []Frontend, local []netip.Addr) {
	byAddress, endpoints := map[netip.AddrPort]*Frontend{}, map[netip.AddrPort]bool{}
	for i := range frontends {
		byAddress[frontends[i].Address] = &frontends[i]
		for _, endpoint := range frontends[i].Endpoints {
			endpoints[endpoint] = true
		}
	}
	r.failures.keep(endpoints)
	r.mu.Lock()
	r.frontends, r.local = byAddress, local
	r.mu.Unlock()
	r.again()
}

// Carry replaces the addresses that this machine owns. It does not wait.
func (r *Relay) Carry(owned []netip.Addr) {
	r.mu.Lock()
	r.owned = map[netip.Addr]bool{}
	for _, address := range owned {
		r.owned[address] = true
	}
	maps.DeleteFunc(r.carried, func(address netip.Addr, _ bool) bool { return !r.owned[address] })
	r.mu.Unlock()
	r.again()
}

// Carries says whether packets for an owned address are taken here.
func (r *Relay) Carries(address netip.Addr) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.carried[address]
}

// Ready says whether this machine could carry an address: something is to be carried, and there are listeners for what
// is of a family that the machine has.
func (r *Relay) Ready() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ready
}

// Counts are those of now.
func (r *Relay) Counts() Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}

func (r *Relay) again() {
	select {
	case r.poke <- struct{}{}:
	default: // it will be looked at anyway
	}
}

// Run carries until ctx is done. Connections then have some seconds to end.
func (r *Relay) Run(ctx context.Context) error {
	connections, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	next := time.Duration(0)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-r.poke:
		case <-time.After(next):
		}
		if ctx.Err() == nil {
			next = r.note(r.sync(connections))
		}
	}
	r.Carry(nil) // before the listeners go: clients on this machine reach the next owner
	_ = r.note(r.sync(connections))
	for _, listener := range r.listeners {
		_ = listener.Close()
	}
	ended := make(chan struct{})
	go func() { r.serving.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(lingerTime):
		end()
		<-ended
	}
	_ = r.note(r.apply(nil))
	return nil
}

// note logs an error once, however often it comes, and returns when to try again.
func (r *Relay) note(err error) time.Duration {
	before := r.problem
	r.problem = ""
	if err == nil {
		return r.repair
	}
	if r.problem = err.Error(); r.problem != before {
		r.Log.Error(err, "Connections to addresses of level Proxy are not carried")
	}
	return retryTime
}
