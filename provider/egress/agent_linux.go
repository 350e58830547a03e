package egress

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/provider/changes"
	"github.com/ccmadm/ccmadm/provider/netfilter"
)

// failuresInRow is how many looks have to fail before the Node says so.
const failuresInRow = 3

// lookInterval is that of looks at what others may have removed: systemd-networkd removes rules, and a reload of nftables tables.
const lookInterval = 10 * time.Second

// drainInterval is that of looks for what has been given away.
const drainInterval = 20 * time.Millisecond

// Agent makes a Node's kernel send packets of pods with the addresses of their Services.
type Agent struct {
	kernel  *Kernel
	owns    func(netip.Addr) bool
	changed <-chan struct{}
	poke    func()
	report  func()
	inputs  atomic.Pointer[Inputs]
	counts  atomic.Pointer[Counts]
	// failures is how many looks in a row have failed.
	failures atomic.Int32
	failed   string // what was logged
	// around is what was read last; nil: nothing yet.
	around *surroundings
}

// NewAgent makes one. owns reports whether this Node owns an address, and report is called when [Agent.Fit] changes. The Agent closes
// the kernel at the end.
func NewAgent(kernel *Kernel, owns func(netip.Addr) bool, report func()) *Agent {
	changed, poke := changes.New()
	return &Agent{kernel: kernel, owns: owns, report: report, changed: changed, poke: poke}
}

// Fit reports whether the Node can own an address, which is known after the first look. One failure does not count: others would have to
// take its addresses.
func (a *Agent) Fit() (fit, known bool) {
	return a.failures.Load() < failuresInRow, a.counts.Load() != nil
}

// Set replaces what the cluster asks for. It does not wait.
func (a *Agent) Set(in Inputs) {
	a.inputs.Store(&in)
	a.poke()
}

// OwnerChanged is called when this Node becomes the owner of an address, and when it is no longer. It does not wait.
func (a *Agent) OwnerChanged() { a.poke() }

// Counts are those after the last change.
func (a *Agent) Counts() Counts {
	if c := a.counts.Load(); c != nil {
		return *c
	}
	return Counts{}
}

// Run works until ctx is done. What is in the kernel stays: packets go on with the address of the Service while an agent is replaced. Before
// the first Set it changes nothing.
func (a *Agent) Run(ctx context.Context) error {
	defer a.kernel.Close()
	go a.kernel.watch(ctx, a.poke)
	changes.Follow(ctx, ctx, a.changed, changes.Paced(ctx, a.look))
	return nil
}

// Drain returns when this Node translates packets for none of its addresses any more, or ctx is done.
func (a *Agent) Drain(ctx context.Context) {
	for a.Counts().Owned > 0 && changes.Sleep(ctx, drainInterval) {
		a.poke()
	}
}

// look makes the kernel have what is wanted now.
func (a *Agent) look() {
	in := a.inputs.Load()
	if in == nil {
		return
	}
	s, err := a.wanted(*in)
	if err == nil || a.around != nil {
		err = errors.Join(err, a.kernel.apply(s))
	}
	c := Counts{Pods: len(s.Pods)}
	for _, p := range s.Pods {
		if p.Owned {
			c.Owned++
		}
	}
	before, known := a.Fit()
	if err != nil {
		c.Failing = 1
		a.failures.Add(1)
	} else {
		a.failures.Store(0)
	}
	a.counts.Store(&c)
	if fit, _ := a.Fit(); fit != before || !known {
		a.report()
	}
	a.log(err)
}

// wanted is the plan as it is on this Node, without what this machine knows to be no pod of the plan. If the routes cannot be read, those
// that were read last count, if there are any.
func (a *Agent) wanted(in Inputs) (state, error) {
	owned := map[netip.Addr]bool{}
	owns := func(address netip.Addr) bool {
		is, known := owned[address]
		if !known {
			is = a.owns(address)
			owned[address] = is
		}
		return is
	}
	plan := NewPlan(in, owns)
	if len(plan.Pods) == 0 {
		return state{}, nil
	}
	around, err := a.kernel.surroundings(in)
	if err == nil {
		a.around = around
	}
	if a.around == nil {
		return state{}, err
	}
	s := state{Cluster: netfilter.Disjoint(append(in.cluster(plan.ranges, a.around.networks), a.around.pods...))}
	for _, p := range plan.Pods {
		if !a.around.contradicts(p) {
			s.Pods = append(s.Pods, podState{Pod: p, Owned: owns(p.Address)})
		}
	}
	return s, err
}

// log says once what fails, and that it no longer does.
func (a *Agent) log(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case text == a.failed:
	case err != nil:
		klog.ErrorS(err, "Packets of pods cannot leave with the addresses of their Services")
	default:
		klog.InfoS("Packets of pods leave with the addresses of their Services again")
	}
	a.failed = text
}

// watch calls changed after changes of routes that may matter, and every 10 seconds, until ctx is done.
func (k *Kernel) watch(ctx context.Context, changed func()) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for ctx.Err() == nil {
		updates, done := make(chan netlink.RouteUpdate), make(chan struct{})
		namespace := k.namespace
		options := netlink.RouteSubscribeOptions{ErrorCallback: func(error) {}}
		if namespace.IsOpen() {
			options.Namespace = &namespace
		}
		if err := netlink.RouteSubscribeWithOptions(updates, done, options); err != nil {
			klog.ErrorS(err, "Cannot watch routes: they are looked at every 10 seconds")
			updates = nil
		}
		changed()
		follow(ctx, updates, tick.C, changed)
		close(done)
		changes.Sleep(ctx, time.Second)
	}
}

// follow returns when ctx is done or updates have ended.
func follow(ctx context.Context, updates <-chan netlink.RouteUpdate, tick <-chan time.Time, changed func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
			changed()
		case u, open := <-updates:
			if !open {
				return
			}
			if u.Table == unix.RT_TABLE_MAIN || u.Table >= firstTable && u.Table < firstTable+tables {
				changed()
			}
		}
	}
}
