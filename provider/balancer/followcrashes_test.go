package balancer

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
)

// followers is a world in which prefixes change. Of its Services s0 to s3 have addresses of their own; s4 to s7 may share them.
type followers struct {
	*world
	*testing.T
	random  *rand.Rand
	missing map[evaluation.Awaited]time.Time
	// hosts are the host parts of Services by what was published, and moved are Services that may have another one.
	hosts map[types.NamespacedName]netip.Addr
	moved map[types.NamespacedName]bool
}

// TestFollow_Crashes: prefixes change, the pool is disabled, Services come and go, share addresses and are edited, some are to get another
// address, claims are lost one by one, agents announce some of them, and passes end anywhere. Services with one address may share it, a
// published address stays until another one may replace it, and in the end all are under the last prefix with nothing left behind.
func TestFollow_Crashes(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			f := &followers{
				world: newWorld(dynamicPool("home", "2001:db8:1::/64", "::f000:0-::f000:1f")), T: t, random: rand.New(rand.NewPCG(seed, 2)),
				missing: map[evaluation.Awaited]time.Time{}, hosts: map[types.NamespacedName]netip.Addr{}, moved: map[types.NamespacedName]bool{},
			}
			for range 100 {
				f.now = f.now.Add(time.Duration(f.random.IntN(40)) * time.Second)
				f.stir()
				steps := f.follow(func() bool { return f.random.IntN(4) == 0 })
				for _, do := range steps[:f.random.IntN(len(steps)+1)] {
					do()
				}
				f.checkHosts()
			}
			f.pools[0].Spec.Disabled = false
			inPrefix(f.pools[0], "2001:db8:2::/64")
			f.end()
		})
	}
}

// stir changes something.
func (f *followers) stir() {
	n := f.random.IntN(8)
	name := types.NamespacedName{Namespace: "default", Name: fmt.Sprint("s", n)}
	s := f.services[name]
	switch f.random.IntN(12) {
	case 0, 1, 2:
		inPrefix(f.pools[0], []string{"", "2001:db8:1::/64", "2001:db8:2::/64", "2001:db8:3::/64"}[f.random.IntN(4)])
	case 3:
		f.pools[0].Spec.Disabled = !f.pools[0].Spec.Disabled
	case 4, 5:
		if names := slices.Sorted(maps.Keys(f.objects)); len(names) > 0 {
			delete(f.objects, names[f.random.IntN(len(names))])
		}
	case 6:
		if f.random.IntN(4) == 0 {
			clear(f.objects)
		}
	default:
		switch {
		case s == nil:
			f.edit(f.add(name.Name, ofIPv6), n)
		case f.random.IntN(3) == 0:
			delete(f.services, name)
			delete(f.hosts, name)
			delete(f.moved, name)
		case f.random.IntN(4) == 0:
			s.Annotations[v1alpha1.ReassignAnnotation] = "true"
			f.moved[name] = true
		default:
			f.edit(s, n)
		}
	}
}

// edit changes with whom a Service may share an address, and the host part that it requests.
func (f *followers) edit(s *corev1.Service, n int) {
	if n < 4 {
		return
	}
	f.moved[allocator.NameOf(s)] = true
	onPort(int32(80 + f.random.IntN(4)))(s)
	for key, value := range map[string]string{
		v1alpha1.ShareKeyAnnotation:  []string{"", "k", "k", "k"}[f.random.IntN(4)],
		v1alpha1.AddressesAnnotation: []string{"", "::f000:1", "::f000:1", "::f000:2"}[f.random.IntN(4)],
	} {
		if s.Annotations[key] = value; value == "" {
			delete(s.Annotations, key)
		}
	}
}

// follow makes a pass while agents announce some of the claims, and returns its writes, claims first.
func (f *followers) follow(announced func() bool) []step {
	s := f.snapshot()
	s.Announced = map[netip.Addr]bool{}
	for _, text := range slices.Sorted(slices.Values(f.live())) {
		if announced() {
			s.Announced[netip.MustParseAddr(text)] = true
		}
	}
	e := &evaluation.Inputs{
		Now: f.now, Plan: allocator.Allocate(s), Pools: s.Pools, Machines: evaluation.NewMachines(nil, nil, nil), Missing: f.missing,
		Reports: evaluation.Reports{Announced: s.Announced},
	}
	statuses := e.Statuses()
	f.checkShared(e.Plan)
	for name, st := range statuses {
		f.checkStays(s, e.Plan.Services[name], e.Plan, st)
	}
	steps := f.claimSteps(e.Plan)
	f.random.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	for _, name := range slices.SortedFunc(maps.Keys(statuses), compareNames) {
		steps = append(steps, func() { f.services[name] = statuses[name].After })
	}
	return steps
}

func compareNames(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }

// checkShared: no two Services have one address, or are to have it, that may not share it.
func (f *followers) checkShared(p *allocator.Plan) {
	f.Helper()
	for address, c := range p.Claims {
		owners := slices.DeleteFunc(slices.Clone(c.Owners), func(o types.NamespacedName) bool { return !c.Live() || p.Services[o] == nil })
		for name, as := range p.Services {
			if as.By[true] == address && !slices.Contains(owners, name) {
				f.Errorf("Service %s has %s, and no claim of it", name, address)
			}
		}
		for i, a := range owners {
			for _, b := range owners[:i] {
				if err := allocator.MayShare(f.services[a], f.services[b]); err != nil {
					f.Errorf("Services %s and %s have %s: %v", a, b, address, err)
				}
			}
		}
	}
}

// checkStays: a published address stays until an agent announces the one under another prefix that replaces it, or it is another's.
func (f *followers) checkStays(s *allocator.Snapshot, as *allocator.Assignment, p *allocator.Plan, st *evaluation.Status) {
	f.Helper()
	published, now := allocator.Earlier(as.Service, true), as.By[true]
	if len(published) == 0 || as.Service.Annotations[v1alpha1.ReassignAnnotation] != "" || allocator.Condition(as.Service) == nil {
		return // without a condition it may be the address of another implementation
	}
	address := published[0]
	if now == address || now.IsValid() && hostOf(now) == hostOf(address) && (s.Announced[now] || !p.Claims[now].Probed.IsZero()) {
		if after := allocator.Earlier(st.After, true); !slices.Equal(after, []netip.Addr{now}) {
			f.Errorf("Service %s has %s, and %v is published", as.Service.Name, now, after)
		}
		return
	}
	if part := as.Service.Annotations[v1alpha1.AddressesAnnotation]; part != "" && part != hostOf(address).String() {
		return
	}
	name := allocator.NameOf(as.Service)
	for _, c := range s.Present {
		switch {
		case c.Address == address && (!c.Has(name) || slices.ContainsFunc(c.Owners, func(o types.NamespacedName) bool {
			return o != name && f.services[o] != nil && allocator.MayShare(f.services[o], f.services[name]) != nil
		})), c.Live() && c.Has(name) && hostOf(c.Address) != hostOf(address):
			return // it is another's, or the Service has left it in a pass before
		}
	}
	if c := p.Claims[address]; c != nil && c.Live() && !c.Has(name) {
		return
	}
	f.Errorf("Service %s loses %s, and has %s: %v", as.Service.Name, address, now, as.Problem)
}

// hostOf has zeros in place of a prefix of 64 bits.
func hostOf(address netip.Addr) netip.Addr {
	bits := address.As16()
	clear(bits[:8])
	return netip.AddrFrom16(bits)
}

// checkHosts compares the host part of each published address with that of before, and looks for addresses that are published for two
// Services that never share one.
func (f *followers) checkHosts() {
	f.Helper()
	owners := map[netip.Addr]types.NamespacedName{}
	for name, s := range f.services {
		published := allocator.Earlier(s, true)
		if len(published) == 0 || name.Name >= "s4" {
			continue // an edit is in the status of others only after a whole pass
		}
		if other, taken := owners[published[0]]; taken {
			f.Errorf("Services %s and %s have %s", name, other, published[0])
		}
		owners[published[0]] = name
		host := hostOf(published[0])
		if was, known := f.hosts[name]; known && was != host && !f.moved[name] {
			f.Errorf("the host part of Service %s was %s, and is %s", name, was, host)
		}
		f.hosts[name] = host
	}
}

// end completes passes until nothing changes any more.
func (f *followers) end() {
	f.Helper()
	for range 6 {
		f.now = f.now.Add(2 * time.Minute)
		for _, do := range f.follow(func() bool { return true }) {
			do()
		}
	}
	f.checkHosts()
	owned := map[string]bool{}
	p := allocator.Allocate(f.snapshot())
	for name, as := range p.Services {
		owned[as.By[true].String()] = true
		if as.Problem == nil && !strings.HasPrefix(f.has(name.Name), "2001:db8:2::f000:") || as.Problem != nil && !f.moved[name] {
			f.Errorf("Service %s has %q: %v", name, f.has(name.Name), as.Problem)
		}
	}
	for address := range f.objects {
		if !owned[address] {
			f.Errorf("the claim of %s is left: %v", address, f.objects[address].Annotations)
		}
	}
}
