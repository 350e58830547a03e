package balancer

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
	"github.com/ccmadm/ccmadm/provider/balancer/ipam"
)

// ipamWorld is a world with a keeper, as a Balancer has one.
type ipamWorld struct {
	*testing.T
	*world
	keeper  *ipam.Keeper
	changed chan struct{}
	last    planned
	end     func() // of the process
}

func newIPAMWorld(t *testing.T, pools ...*v1alpha1.AddressPool) *ipamWorld {
	t.Helper()
	w := &ipamWorld{T: t, world: newWorld(pools...), end: func() {}}
	w.restart()
	return w
}

// restart is another process.
func (w *ipamWorld) restart() {
	w.changed = make(chan struct{}, 1)
	changed := w.changed
	keeper := ipam.New(ipam.Settings{
		Tokens: func(context.Context) (map[string][]byte, error) { return map[string][]byte{"k": []byte("good\n")}, nil },
		Changed: func() {
			select {
			case changed <- struct{}{}:
			default: // it is known
			}
		},
	})
	w.end()
	w.keeper = keeper
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); keeper.Run(ctx) }() // w.keeper may be another one's before this begins
	w.end = func() { cancel(); <-ended }
}

// service makes one with upstream's finalizer.
func (w *ipamWorld) service(name string, changes ...func(*corev1.Service)) *corev1.Service {
	return w.add(name, append(changes, func(s *corev1.Service) { s.Finalizers = []string{v1alpha1.LoadBalancerFinalizer} })...)
}

// snapshotIPAM has what the keeper and the Services say, too.
func (w *ipamWorld) snapshotIPAM() *allocator.Snapshot {
	s := w.snapshot()
	s.Leases, s.Asked = w.keeper.Leases(), map[types.UID][]allocator.LeaseKey{}
	for _, service := range w.services {
		if keys := allocator.AskedOf(service); len(keys) > 0 {
			s.Asked[service.UID] = keys
		}
	}
	return s
}

// pass is one of a Balancer. Of the writes of its plan, the first ones are made; -1: all.
func (w *ipamWorld) pass(writes int) planned {
	p := allocator.Allocate(w.snapshotIPAM())
	steps := w.steps(p)
	for _, service := range w.services {
		steps = append(steps, func() { allocator.RecordAsked(service, p.Records[service.UID], w.now) })
	}
	if writes >= 0 {
		steps = steps[:min(writes, len(steps))]
	}
	for _, do := range steps {
		do()
	}
	w.keeper.Set(ordersOf(p, "c1", w.pools))
	w.last = planned{p}
	return w.last
}

// until makes passes until that is so.
func (w *ipamWorld) until(what string, so func(p planned) bool) {
	w.Helper()
	for began := time.Now(); !so(w.pass(-1)); {
		if time.Since(began) > time.Minute {
			w.Fatalf("%s: not within a minute", what)
		}
		select {
		case <-w.changed:
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// gets waits until the Service has the addresses.
func (w *ipamWorld) gets(s *corev1.Service, want string) {
	w.Helper()
	w.until(s.Name+" gets "+want, func(p planned) bool { return p.of(s) == want && len(allocator.AskedOf(s)) == 0 })
}

// fails waits until the Service has a problem with that text.
func (w *ipamWorld) fails(s *corev1.Service, reason, want string) {
	w.Helper()
	w.until(s.Name+": "+want, func(p planned) bool {
		problem := p.Services[allocator.NameOf(s)].Problem
		return problem != nil && problem.Reason == reason && strings.Contains(problem.Message, want)
	})
}

// released waits until nothing is claimed and the IPAM has nothing.
func (w *ipamWorld) released(p *played) {
	w.Helper()
	w.Cleanup(func() {
		if w.Failed() {
			w.Logf("the IPAM has %s after %v; claims: %v; answers: %+v; calls: %v",
				p.state(), p.calls, w.objects, w.keeper.Leases(), slicesOf(w.last.Calls))
		}
	})
	w.until("all is released", func(planned) bool { return p.state() == "[]" && len(w.objects) == 0 })
}

func TestIPAM_Gives(t *testing.T) {
	p := newPlayed(t, "192.0.2.7", "2001:db8::7", "192.0.2.8")
	w := newIPAMWorld(t, p.pool("192.0.2.0/28", "2001:db8::/120"))
	both := w.service("both", families(corev1.IPFamilyPolicyRequireDualStack, corev1.IPv4Protocol, corev1.IPv6Protocol))
	first := w.pass(-1)
	if got := first.reason(both); got != "IPAMPending" || first.of(both) != "" {
		t.Errorf("before the answer it has %q and reason %q", first.of(both), got)
	}
	if len(allocator.AskedOf(both)) != 2 || len(p.calls) != 0 {
		t.Errorf("asked %v before the status says so: %v", p.calls, allocator.AskedOf(both))
	}
	w.gets(both, "192.0.2.7,2001:db8::7")
	fixed := w.service("fixed", annotated(v1alpha1.AddressesAnnotation, "192.0.2.8"))
	w.gets(fixed, "192.0.2.8")
	c, _ := allocator.ParseClaim(w.objects["192.0.2.8"])
	if c.Lease.String() != "lan/"+string(fixed.UID) {
		t.Errorf("its claim has the lease %q", c.Lease)
	}
	other := w.service("other")
	w.fails(other, "IPAMRefused", "gives no IPv4 address: answers 409 Conflict")
	delete(w.services, allocator.NameOf(both))
	w.pass(-1)
	w.now = w.now.Add(2 * time.Minute)
	w.gets(other, "192.0.2.7")
}

// An IPAM that fails keeps nothing from Services of other pools.
func TestIPAM_Waits(t *testing.T) {
	p := newPlayed(t, "192.0.2.7")
	p.status = http.StatusServiceUnavailable
	asked := p.pool("192.0.2.0/28")
	asked.Spec.Priority = 1
	w := newIPAMWorld(t, asked, addressPool("own", "198.51.100.1"))
	web, own := w.service("web"), w.service("own", annotated(v1alpha1.PoolAnnotation, "own"))
	w.gets(own, "198.51.100.1")
	w.fails(web, "IPAMPending", "the IPAM of AddressPool/lan answers 503 Service Unavailable")
	if got := w.keeper.Trouble("lan"); !strings.Contains(got, "503") {
		t.Errorf("the pool's trouble is %q", got)
	}
	p.now(func() { p.status = 0 })
	w.gets(web, "192.0.2.7")
}

// What an IPAM answers counts only in the limits of its pool.
func TestIPAM_Refused(t *testing.T) {
	for name, want := range map[string]string{
		"192.0.2.77":   "answers 192.0.2.77: it is not in the pool",
		"192.0.2.9":    "answers 192.0.2.9: it is not in the pool", // excluded
		"192.0.2.3":    "answers 192.0.2.3: 192.0.2.3 is the control plane's address",
		"192.0.2.5":    "answers 192.0.2.5: it belongs to Service/default/first",
		"198.51.100.1": "answers 198.51.100.1: it is not in the pool", // another pool's
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlayed(t, "192.0.2.5")
			pool := p.pool("192.0.2.0/28")
			pool.Spec.Exclude = []string{"192.0.2.9"}
			w := newIPAMWorld(t, pool, addressPool("other", "198.51.100.1"))
			w.plane.Endpoints = map[netip.Addr]bool{netip.MustParseAddr("192.0.2.3"): true}
			lan := annotated(v1alpha1.PoolAnnotation, "lan")
			w.gets(w.service("first", lan), "192.0.2.5")
			web := w.service("web", lan, annotated(v1alpha1.ShareKeyAnnotation, "k"))
			p.now(func() { p.free = []string{name} })
			w.fails(web, "IPAMRefused", want)
			if len(w.objects) != 1 {
				t.Errorf("claims: %v", w.objects)
			}
			web.Spec.Type = corev1.ServiceTypeClusterIP
			w.until("its answer is released", func(planned) bool {
				return !strings.Contains(p.state(), "lan/"+string(web.UID)) && len(allocator.AskedOf(web)) == 0
			})
		})
	}
}

// A manager may end after any write, and at any moment between the answer and the write. Nothing is left in the IPAM at the end.
func TestIPAM_Restart(t *testing.T) {
	for writes := range 4 {
		t.Run(fmt.Sprint(writes), func(t *testing.T) {
			p := newPlayed(t, "192.0.2.7", "192.0.2.8")
			w := newIPAMWorld(t, p.pool("192.0.2.0/28"))
			web := w.service("web")
			w.pass(-1)
			w.pass(-1) // asks
			for began := time.Now(); p.state() == "[]" && time.Since(began) < time.Minute; {
				time.Sleep(time.Millisecond)
			}
			<-w.changed
			w.pass(writes)
			w.restart()
			if writes%2 == 0 {
				w.gets(web, "192.0.2.7")
				// A call under way would come after the release: there is no quarantine by this clock.
				w.until("it is renewed", func(planned) bool {
					return w.keeper.Leases()[allocator.LeaseKey{Pool: "lan", UID: web.UID}].Address.IsValid()
				})
			}
			web.Spec.Type = corev1.ServiceTypeClusterIP
			web.Status.LoadBalancer.Ingress = nil
			w.pass(-1)
			w.restart()
			w.now = w.now.Add(2 * time.Minute)
			w.released(p)
			if len(allocator.AskedOf(web)) != 0 {
				t.Errorf("the Service still says %v", allocator.AskedOf(web))
			}
		})
	}
}

// An address is released after its quarantine, while no agent answers for it, and as often as it takes.
func TestIPAM_Releases(t *testing.T) {
	p := newPlayed(t, "192.0.2.7")
	w := newIPAMWorld(t, p.pool("192.0.2.0/28"))
	web := w.service("web")
	w.gets(web, "192.0.2.7")
	delete(w.services, allocator.NameOf(web))
	w.pass(-1)
	if got := w.pass(-1).Calls; len(got) != 0 {
		t.Errorf("in quarantine it calls %v", slicesOf(got))
	}
	p.now(func() { p.status, p.calls = http.StatusServiceUnavailable, nil })
	w.now = w.now.Add(2 * time.Minute)
	w.until("it was tried", func(planned) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.calls) > 0
	})
	if len(w.objects) != 1 {
		t.Fatal("the claim has gone before the IPAM has released the address")
	}
	again := w.service("web") // of the same name, and another UID
	w.fails(again, "IPAMPending", "answers 503")
	w.restart()
	p.now(func() { p.status = 0 })
	w.gets(again, "192.0.2.7")
	if got, want := p.state(), "[lan/"+string(again.UID)+"/ipv4=192.0.2.7]"; got != want {
		t.Errorf("the IPAM has %s, want %s", got, want)
	}
}

func slicesOf(calls map[allocator.LeaseKey]*allocator.LeaseCall) []allocator.LeaseKey {
	var keys []allocator.LeaseKey
	for key := range maps.Keys(calls) {
		keys = append(keys, key)
	}
	return keys
}

// An address that a Service has stays, whatever the IPAM says, and a Service that comes back within the quarantine takes its entry along.
func TestIPAM_Keeps(t *testing.T) {
	p := newPlayed(t, "192.0.2.8")
	w := newIPAMWorld(t, addressPool("lan", "192.0.2.7-192.0.2.8"))
	web := w.service("web", annotated(v1alpha1.AddressesAnnotation, "192.0.2.7"))
	if got := w.pass(-1).of(web); got != "192.0.2.7" {
		t.Fatalf("without an IPAM it has %q", got)
	}
	delete(web.Annotations, v1alpha1.AddressesAnnotation)
	w.pools[0] = p.pool("192.0.2.7-192.0.2.8")
	remark := func(want string) {
		t.Helper()
		w.until(want, func(q planned) bool {
			as := q.Services[allocator.NameOf(web)]
			return as.Remark == want && q.of(web) == "192.0.2.7" && as.Problem == nil
		})
	}
	remark("the IPAM of AddressPool/lan refuses 192.0.2.7, which the Service keeps: answers 409 Conflict")
	w.restart()
	p.now(func() { p.has["lan/"+string(web.UID)+"/ipv4"] = "192.0.2.8" })
	remark("the IPAM of AddressPool/lan answers 192.0.2.8, and the Service keeps 192.0.2.7")
	w.restart()
	p.now(func() { p.status = http.StatusInternalServerError })
	remark("")
	p.now(func() { p.status, p.has = 0, map[string]string{"lan/" + string(web.UID) + "/ipv4": "192.0.2.7"} })
	w.gets(web, "192.0.2.7")
	delete(w.services, allocator.NameOf(web))
	w.pass(-1)
	again := w.service("web")
	w.gets(again, "192.0.2.7")
	w.stores(p, "[lan/"+string(again.UID)+"/ipv4=192.0.2.7]")
}

// A Service that goes to another pool has its answer released. Without its pool, or the IPAM of it, nothing can be.
func TestIPAM_Elsewhere(t *testing.T) {
	p := newPlayed(t, "203.0.113.1")
	w := newIPAMWorld(t, p.pool("192.0.2.0/28"), addressPool("own", "198.51.100.1"))
	web := w.service("web", annotated(v1alpha1.PoolAnnotation, "lan"))
	w.fails(web, "IPAMRefused", "it is not in the pool")
	web.Annotations[v1alpha1.PoolAnnotation] = "own"
	w.gets(web, "198.51.100.1")
	w.until("the IPAM has nothing", func(planned) bool { return p.state() == "[]" })

	p.now(func() { p.free = []string{"192.0.2.7"} })
	gone := w.service("gone", annotated(v1alpha1.PoolAnnotation, "lan"))
	w.gets(gone, "192.0.2.7")
	delete(w.services, allocator.NameOf(gone))
	w.pass(-1)
	w.pools = w.pools[1:]
	w.now = w.now.Add(2 * time.Minute)
	w.until("the claim is dropped", func(q planned) bool { return len(w.objects) == 1 || len(q.Left) == 1 })
	if got := evaluation.Join(allocator.Earlier(web, true)); got != "198.51.100.1" {
		t.Errorf("the other Service has %s", got)
	}
}
