package balancer

import (
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// remove deletes a Service.
func (w *ipamWorld) remove(s *corev1.Service) {
	delete(w.services, allocator.NameOf(s))
	w.pass(-1)
}

// stores waits until the IPAM has the entry, though no answer came.
func (w *ipamWorld) stores(p *played, want string) {
	w.Helper()
	w.until("the IPAM has "+want, func(planned) bool { return p.state() == want })
}

// keeps makes passes for more than a call takes: no address is released as long as there is a claim, and no Service says that it waits.
func (w *ipamWorld) keeps(p *played) {
	w.Helper()
	for began := time.Now(); time.Since(began) < 300*time.Millisecond; time.Sleep(10 * time.Millisecond) {
		w.pass(-1)
	}
	if n := p.called(http.MethodDelete); n > 0 || len(w.objects) != 1 {
		w.Fatalf("%d releases while the address is claimed; claims: %v", n, w.objects)
	}
	for _, s := range w.services {
		if keys := allocator.AskedOf(s); len(keys) > 0 {
			w.Errorf("Service/%s says %v", s.Name, keys)
		}
	}
}

// ends waits until the quarantine is over, and nothing is left.
func (w *ipamWorld) ends(p *played) {
	w.Helper()
	p.now(func() { p.lost = false })
	w.now = w.now.Add(2 * time.Minute)
	w.released(p)
}

// A Service that came back within the quarantine is deleted before the IPAM has said that it has the address for it.
func TestIPAM_LostTakenAlong(t *testing.T) {
	p := newPlayed(t, "192.0.2.7")
	w := newIPAMWorld(t, p.pool("192.0.2.0/28"))
	web := w.service("web")
	w.gets(web, "192.0.2.7")
	w.remove(web)
	p.now(func() { p.lost = true })
	for range 2 { // and another one comes back meanwhile
		web = w.service("web")
		w.pass(-1)
		w.stores(p, "[lan/2/ipv4=192.0.2.7]")
		w.remove(web)
		w.keeps(p)
	}
	w.restart()
	w.keeps(p)
	w.ends(p)
}

// Of Services that share an address the second is deleted before the IPAM has said that it has the address for it.
func TestIPAM_LostShared(t *testing.T) {
	p := newPlayed(t, "192.0.2.7")
	w := newIPAMWorld(t, p.pool("192.0.2.0/28"))
	shared := annotated(v1alpha1.ShareKeyAnnotation, "k")
	a := w.service("a", shared)
	w.gets(a, "192.0.2.7")
	b := w.service("b", shared, onPort(81))
	w.gets(b, "192.0.2.7")
	p.now(func() { p.lost = true })
	w.remove(a)
	w.stores(p, "[lan/"+string(b.UID)+"/ipv4=192.0.2.7]")
	c := w.service("c", shared, onPort(82))
	w.pass(-1)
	w.remove(b)
	w.keeps(p)
	p.now(func() { p.lost = false })
	w.stores(p, "[lan/"+string(c.UID)+"/ipv4=192.0.2.7]")
	w.gets(c, "192.0.2.7")
	w.keeps(p)
	w.remove(c)
	w.ends(p)
}

// An address from before the pool had an IPAM is stored there, and its Service deleted before the answer.
func TestIPAM_LostAdopted(t *testing.T) {
	p := newPlayed(t, "192.0.2.7")
	w := newIPAMWorld(t, addressPool("lan", "192.0.2.7-192.0.2.8"))
	web := w.service("web", annotated(v1alpha1.AddressesAnnotation, "192.0.2.7"))
	w.pass(-1)
	p.now(func() { p.lost = true })
	w.pools[0] = p.pool("192.0.2.7-192.0.2.8")
	w.stores(p, "[lan/"+string(web.UID)+"/ipv4=192.0.2.7]")
	w.remove(web)
	w.keeps(p)
	w.ends(p)
}

// A lease of a former owner under which the IPAM does not have the address is released, and the next owner's takes its place.
func TestIPAM_LostRefused(t *testing.T) {
	p := newPlayed(t, "192.0.2.7")
	w := newIPAMWorld(t, p.pool("192.0.2.0/28"))
	shared := annotated(v1alpha1.ShareKeyAnnotation, "k")
	a, b := w.service("a", shared), (*corev1.Service)(nil)
	w.gets(a, "192.0.2.7")
	b = w.service("b", shared, onPort(81))
	c := w.service("c", shared, onPort(82))
	w.gets(b, "192.0.2.7")
	w.gets(c, "192.0.2.7")
	p.now(func() { p.has = map[string]string{"lan/" + string(b.UID) + "/ipv4": "192.0.2.8"} })
	w.remove(a)
	w.until("the IPAM differs", func(q planned) bool { return q.Services[allocator.NameOf(b)].Remark != "" })
	w.remove(b)
	p.now(func() { p.free = append(p.free, "192.0.2.7") })
	w.until("the next owner has it", func(planned) bool { return p.state() == "[lan/"+string(c.UID)+"/ipv4=192.0.2.7]" })
	claim, _ := allocator.ParseClaim(w.objects["192.0.2.7"])
	if !claim.Live() {
		t.Errorf("the claim is %+v", claim)
	}
	w.remove(c)
	w.ends(p)
}

// An address that a Service has is renewed whatever becomes of its pool.
func TestIPAM_EditedPool(t *testing.T) {
	for name, edit := range map[string]func(*v1alpha1.AddressPool){
		"excluded": func(p *v1alpha1.AddressPool) { p.Spec.Exclude = []string{"192.0.2.7"} },
		"moved":    func(p *v1alpha1.AddressPool) { p.Spec.Ranges = []string{"198.51.100.0/24"} },
		"broken":   func(p *v1alpha1.AddressPool) { p.Spec.Ranges = []string{"nonsense"} },
		"disabled": func(p *v1alpha1.AddressPool) { p.Spec.Disabled = true },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlayed(t, "192.0.2.7")
			w := newIPAMWorld(t, p.pool("192.0.2.0/28"))
			web := w.service("web")
			w.gets(web, "192.0.2.7")
			w.pools[0] = p.pool("192.0.2.0/28")
			edit(w.pools[0])
			w.restart()
			p.now(func() { p.calls = nil })
			w.until("it is renewed", func(planned) bool { return p.called(http.MethodPut) > 0 })
			w.remove(web)
			w.ends(p)
		})
	}
}

// A Service gets the address back that its annotation says, and any other one once the IPAM refuses that.
func TestIPAM_Annotation(t *testing.T) {
	for want, free := range map[string][]string{"192.0.2.8": {"192.0.2.7", "192.0.2.8"}, "192.0.2.7": {"192.0.2.7"}} {
		p := newPlayed(t, free...)
		w := newIPAMWorld(t, p.pool("192.0.2.0/28"))
		web := w.service("web", annotated(v1alpha1.AllocatedAnnotation, "192.0.2.8"))
		w.gets(web, want)
		if n := p.called(http.MethodPut); n > 3 {
			t.Errorf("%s: %d calls: %v", want, n, p.calls)
		}
	}
}

// A Service whose claim was lost gets back the address of its annotation from the IPAM that has it, also where a pool without an IPAM
// comes first. That pool gives it one after the IPAM has refused the address.
func TestIPAM_LostBehindAnotherPool(t *testing.T) {
	for name, want := range map[string]string{"192.0.2.7": "192.0.2.7", "192.0.2.8": "198.51.100.1"} {
		p := newPlayed(t, name)
		first := addressPool("first", "198.51.100.1")
		first.Spec.Priority = 1
		w := newIPAMWorld(t, first, p.pool("192.0.2.0/28"))
		web := w.service("web", annotated(v1alpha1.AllocatedAnnotation, "192.0.2.7"))
		if q := w.pass(-1); q.of(web) != "" || q.reason(web) != "IPAMPending" {
			t.Errorf("before the answer it has %q and reason %q", q.of(web), q.reason(web))
		}
		w.gets(web, want)
	}
}

// A Service whose claim was lost waits for its address also where it could share another one. It shares that after the IPAM has refused
// its own.
func TestIPAM_LostWithAShareKey(t *testing.T) {
	for name, want := range map[string]string{"192.0.2.7": "192.0.2.7", "192.0.2.8": "198.51.100.1"} {
		p := newPlayed(t, name)
		first := addressPool("first", "198.51.100.1")
		first.Spec.Priority = 1
		w := newIPAMWorld(t, first, p.pool("192.0.2.0/28"))
		shared := annotated(v1alpha1.ShareKeyAnnotation, "k")
		w.gets(w.service("other", shared), "198.51.100.1")
		p.now(func() { p.status = http.StatusServiceUnavailable })
		web := w.service("web", shared, onPort(81), annotated(v1alpha1.AllocatedAnnotation, "192.0.2.7"))
		for range 2 {
			if q := w.pass(-1); q.of(web) != "" || q.reason(web) != "IPAMPending" {
				t.Errorf("while the IPAM does not answer it has %q and reason %q", q.of(web), q.reason(web))
			}
		}
		p.now(func() { p.status = 0 })
		w.gets(web, want)
	}
}

// A Service waits for an IPAM that does not answer. Once the pool is disabled, as the finding says, another pool gives it an address.
func TestIPAM_LostAndDisabled(t *testing.T) {
	p := newPlayed(t, "192.0.2.7")
	w := newIPAMWorld(t, p.pool("192.0.2.0/28"), addressPool("other", "198.51.100.1"))
	p.now(func() { p.status = http.StatusServiceUnavailable })
	web := w.service("web", annotated(v1alpha1.AllocatedAnnotation, "192.0.2.7"))
	q := w.pass(-1)
	if problem := q.Services[allocator.NameOf(web)].Problem; problem == nil || !strings.Contains(problem.Do, "spec.disabled") {
		t.Fatalf("got %+v, want that the pool can be disabled", problem)
	}
	w.pools[0] = p.pool("192.0.2.0/28")
	w.pools[0].Spec.Disabled = true
	if q := w.pass(-1); q.of(web) != "198.51.100.1" {
		t.Errorf("it has %q and reason %q", q.of(web), q.reason(web))
	}
}

// Of two Services whose common claim was lost both get its address back.
func TestIPAM_LostOfTwo(t *testing.T) {
	p := newPlayed(t, "192.0.2.7")
	w := newIPAMWorld(t, p.pool("192.0.2.0/28"))
	had := []func(*corev1.Service){annotated(v1alpha1.ShareKeyAnnotation, "k"), annotated(v1alpha1.AllocatedAnnotation, "192.0.2.7")}
	a, b := w.service("a", had...), w.service("b", append(had, onPort(81))...)
	w.gets(a, "192.0.2.7")
	w.gets(b, "192.0.2.7")
}
