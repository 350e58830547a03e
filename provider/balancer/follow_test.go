package balancer

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// dynamicPool is one with host parts; an empty prefix is not known.
func dynamicPool(name, prefix string, hosts ...string) *v1alpha1.AddressPool {
	p := addressPool(name)
	p.Spec.DynamicPrefix = &v1alpha1.PoolDynamicPrefix{Length: 64, Hosts: hosts}
	inPrefix(p, prefix)
	return p
}

func inPrefix(p *v1alpha1.AddressPool, prefix string) {
	p.Status.DynamicPrefix = nil
	if prefix != "" {
		p.Status.DynamicPrefix = &v1alpha1.PoolPrefix{Prefix: prefix, Since: metav1.NewTime(start)}
	}
}

func ofIPv6(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} }

// live are the addresses that agents announce.
func (w *world) live() []string {
	var list []string
	for name, object := range w.objects {
		if c, ours := allocator.ParseClaim(object); ours && c.Live() {
			list = append(list, name)
		}
	}
	return list
}

// settled is the end of a change, and reports a Service of those published before that was without an address meanwhile.
func (w *world) settled(t *testing.T) {
	t.Helper()
	before := map[types.NamespacedName]bool{}
	for name, s := range w.services {
		before[name] = len(s.Status.LoadBalancer.Ingress) > 0
	}
	for range 3 {
		w.told(w.live()...)
		for name, was := range before {
			if s := w.services[name]; s != nil && was && len(s.Status.LoadBalancer.Ingress) == 0 {
				t.Errorf("Service %s had an address, and has none", name)
			}
		}
	}
}

func (w *world) says(name string) string {
	c := allocator.Condition(w.services[types.NamespacedName{Namespace: "default", Name: name}])
	if c == nil {
		return ""
	}
	return c.Reason + ": " + c.Message
}

// TestFollow: a Service has the same host part under each prefix. The new address is claimed first, and replaces the former one once it is
// announced.
func TestFollow(t *testing.T) {
	w := newWorld(dynamicPool("home", "2001:db8:1::/64", "::f000:0-::f000:ff"))
	w.add("web", ofIPv6)
	w.settled(t)
	first := w.has("web")
	if !strings.HasPrefix(first, "2001:db8:1::f000:") {
		t.Fatalf("it has %q", first)
	}
	host := strings.TrimPrefix(first, "2001:db8:1::")
	second := "2001:db8:2::" + host
	inPrefix(w.pools[0], "2001:db8:2::/64")
	follows := "; the prefix of AddressPool/home is now 2001:db8:2::/64: " + second + " replaces " + first
	for _, want := range []string{"Announced: " + first + " at level L2" + follows, "NotAnnounced: no agent announces " + second + follows} {
		w.told(first)
		if got := w.has("web"); got != first || len(w.live()) != 2 {
			t.Fatalf("before an agent announces the new address it has %q, and the claims are %v", got, w.live())
		}
		if !strings.HasPrefix(w.says("web"), want) {
			t.Errorf("it says %q, want %q", w.says("web"), want)
		}
	}
	s := w.snapshot()
	s.Announced = map[netip.Addr]bool{netip.MustParseAddr(second): true}
	want := "the prefix of AddressPool/home is now 2001:db8:2::/64: address " + first + " became " + second
	name := types.NamespacedName{Namespace: "default", Name: "web"}
	if as := allocator.Allocate(s).Services[name]; as.Followed != want || as.Follows != "" {
		t.Errorf("it has followed: %q, want %q; and follows: %q", as.Followed, want, as.Follows)
	}
	w.told(first, second)
	if got := w.has("web"); got != second {
		t.Fatalf("announced, it has %q, want %q", got, second)
	}
	if c, _ := allocator.ParseClaim(w.objects[first]); c.Live() {
		t.Error("the former address is not released")
	}
	if as := allocator.Allocate(w.snapshot()).Services[name]; as.Followed != "" {
		t.Errorf("it is told twice: %s", as.Followed)
	}
	for i, prefix := range []string{"2001:db8:1::", "2001:db8:2::", "2001:db8:3::", "2001:db8:1::"} {
		inPrefix(w.pools[0], prefix+"/64")
		if i%2 == 0 {
			w.now = w.now.Add(2 * time.Minute) // the quarantine is over
		}
		w.settled(t)
		if got := w.has("web"); got != prefix+host {
			t.Errorf("under %s it has %q", prefix, got)
		}
	}
	w.now = w.now.Add(2 * time.Minute)
	w.told(w.live()...)
	if len(w.objects) != 1 {
		t.Errorf("claims are left: %v", w.objects)
	}
}

// TestFollow_Turns: a prefix that is replaced before the address under it was announced leaves nothing behind.
func TestFollow_Turns(t *testing.T) {
	w := newWorld(dynamicPool("home", "2001:db8:1::/64", "::5"))
	w.add("web", ofIPv6, annotated(v1alpha1.AddressesAnnotation, "::5"))
	w.settled(t)
	for _, prefix := range []string{"2001:db8:2::", "2001:db8:3::", "2001:db8:1::", "2001:db8:2::", "2001:db8:1::"} {
		inPrefix(w.pools[0], prefix+"/64")
		w.told("2001:db8:1::5")
		if got := w.has("web"); got != "2001:db8:1::5" {
			t.Fatalf("with prefix %s, before its agents announce anything, it has %q", prefix, got)
		}
	}
	w.now = w.now.Add(2 * time.Minute)
	w.told("2001:db8:1::5")
	if len(w.objects) != 1 || len(w.live()) != 1 {
		t.Errorf("claims are left: %v", w.objects)
	}
}

// TestFollow_Requests: a Service may ask for a host part. One that asks for a full address stays there.
func TestFollow_Requests(t *testing.T) {
	w := newWorld(dynamicPool("home", "2001:db8:1::/64", "::f000:0-::f000:ff"))
	w.add("host", ofIPv6, annotated(v1alpha1.AddressesAnnotation, "::f000:5"))
	w.add("full", ofIPv6, annotated(v1alpha1.AddressesAnnotation, "2001:db8:1::f000:6"))
	w.add("other", ofIPv6, annotated(v1alpha1.AddressesAnnotation, "::f001:5"))
	w.settled(t)
	expect := func(when string, want map[string]string) {
		t.Helper()
		for name, address := range want {
			if got := w.has(name); got != address {
				t.Errorf("%s: Service %s has %q, want %q: %s", when, name, got, address, w.says(name))
			}
		}
	}
	expect("first", map[string]string{"host": "2001:db8:1::f000:5", "full": "2001:db8:1::f000:6", "other": ""})
	inPrefix(w.pools[0], "2001:db8:2::/64")
	w.settled(t)
	expect("changed", map[string]string{"host": "2001:db8:2::f000:5", "full": "2001:db8:1::f000:6"})
	for name, reason := range map[string]string{"full": "OutOfPool", "other": "AddressOutsidePools", "host": "Announced"} {
		if got := w.says(name); !strings.HasPrefix(got, reason) {
			t.Errorf("Service %s says %q, want %s", name, got, reason)
		}
	}
	name := types.NamespacedName{Namespace: "default", Name: "host"}
	w.services[name].Annotations[v1alpha1.AddressesAnnotation] = "::f000:7"
	w.told(w.live()...)
	w.told(w.live()...)
	expect("it asks for another one", map[string]string{"host": "2001:db8:2::f000:7"})

	clear(w.objects) // a backup of Services alone, restored where the prefix is another one
	for _, s := range w.services {
		delete(s.Annotations, v1alpha1.AddressesAnnotation)
		s.Status = corev1.ServiceStatus{}
	}
	inPrefix(w.pools[0], "2001:db8:3::/64")
	w.settled(t)
	expect("restored", map[string]string{"host": "2001:db8:3::f000:7", "full": "2001:db8:3::f000:6"})
}

// TestFollow_Unknown: without a prefix nothing is given, and what was given stays.
func TestFollow_Unknown(t *testing.T) {
	w := newWorld(dynamicPool("home", "2001:db8:1::/64", "::f000:0-::f000:ff"))
	w.add("has", ofIPv6)
	w.settled(t)
	had := w.has("has")
	inPrefix(w.pools[0], "")
	w.add("new", ofIPv6)
	w.add("asks", ofIPv6, annotated(v1alpha1.AddressesAnnotation, "::f000:5"))
	w.settled(t)
	if got := w.has("has") + w.has("new") + w.has("asks"); got != had || len(w.objects) != 1 {
		t.Errorf("Services have %q, want %q; claims %v", got, had, w.objects)
	}
	for name, want := range map[string]string{
		"has": "Announced: " + had, "new": "PoolNotReady: AddressPool/home gives no IPv6 address: its prefix is not known",
		"asks": "PoolNotReady: AddressPool/home does not give ::f000:5: its prefix is not known",
	} {
		if got := w.says(name); !strings.HasPrefix(got, want) {
			t.Errorf("Service %s says %q, want %q", name, got, want)
		}
	}
	pools := w.snapshot().Pools
	status := poolStatus(pools[0], allocator.Allocate(w.snapshot()), pools, "", w.now)
	if c := status.Conditions[0]; c.Status != metav1.ConditionFalse || c.Message != allocator.ErrNoPrefix.Error() || status.Available != "0" {
		t.Errorf("the pool says %+v", status)
	}
	inPrefix(w.pools[0], "2001:db8:1::/64")
	w.settled(t)
	if w.has("has") != had || w.has("asks") != "2001:db8:1::f000:5" || w.has("new") == "" {
		t.Errorf("with a prefix they have %q, %q and %q", w.has("has"), w.has("asks"), w.has("new"))
	}
}

// TestFollow_Refused: an address that is completed may be another's, as any address. The Service keeps what it has, and says why.
func TestFollow_Refused(t *testing.T) {
	w := newWorld(dynamicPool("home", "2001:db8:1::/64", "::5", "::6"))
	w.add("web", ofIPv6, annotated(v1alpha1.AddressesAnnotation, "::5"))
	w.settled(t)
	refused := func(when, reason, message string) {
		t.Helper()
		w.settled(t)
		if got := w.says("web"); w.has("web") != "2001:db8:1::5" || !strings.HasPrefix(got, reason+": the prefix of AddressPool/home is now 2001:db8:2::/64: ") ||
			!strings.Contains(got, message) {
			t.Errorf("%s: it has %q, and says %q", when, w.has("web"), got)
		}
	}
	inPrefix(w.pools[0], "2001:db8:2::/64")
	w.setNodes("2001:db8:2::5")
	refused("a Node", "AddressInUse", "2001:db8:2::5 is the InternalIP of Node/")
	w.setNodes("2001:db8:2::9")
	w.plane.Endpoints = map[netip.Addr]bool{netip.MustParseAddr("2001:db8:2::5"): true}
	refused("the control plane", "AddressInUse", "2001:db8:2::5 is the control plane's address")
	w.plane.Endpoints = nil
	w.conflicts[netip.MustParseAddr("2001:db8:2::5")] = true
	refused("an IPAddress of another program", "AddressInUse", "claimed by an IPAddress of another owner")
	clear(w.conflicts)
	static := addressPool("static", "2001:db8:2::/112")
	static.CreationTimestamp = metav1.NewTime(start.Add(time.Hour))
	w.pools = append(w.pools, static)
	for _, p := range w.snapshot().Pools {
		if p.Problem != nil || (p.LacksPrefix() != nil) != (p.Name == "home") {
			t.Errorf("AddressPool/%s: %v, %v", p.Name, p.Problem, p.LacksPrefix())
		}
	}
	w.settled(t)
	if got := w.says("web"); w.has("web") != "2001:db8:1::5" || !strings.HasPrefix(got, "Announced") {
		t.Errorf("a pool: it has %q, and says %q", w.has("web"), got)
	}
	w.pools = w.pools[:1]
	w.settled(t)
	if got := w.has("web"); got != "2001:db8:2::5" {
		t.Errorf("free at last, it has %q: %s", got, w.says("web"))
	}
	w.pools[0].Spec.DynamicPrefix.Hosts = []string{"2001:db8::5"}
	if p := w.snapshot().Pools[0]; p.Problem == nil || !strings.Contains(p.Problem.Error(), "the first 64 bits are not zero") {
		t.Errorf("no host part: %v", p.Problem)
	}
}

// TestFollow_DualStack: a pool may have IPv4 ranges, too, and there may be others beside it. The other family is left alone, and Services
// that share an address follow together.
func TestFollow_DualStack(t *testing.T) {
	home := dynamicPool("home", "2001:db8:1::/64", "::f000:0-::f000:ff")
	home.Spec.Ranges = []string{"192.0.2.0/24"}
	beside := addressPool("beside", "198.51.100.0/24", "2001:db8:9::/120")
	beside.Spec.AutoAssign = new(false)
	w := newWorld(home, beside)
	both := families(corev1.IPFamilyPolicyRequireDualStack, corev1.IPv4Protocol, corev1.IPv6Protocol)
	key := annotated(v1alpha1.ShareKeyAnnotation, "k")
	w.add("both", both)
	w.add("beside", both, annotated(v1alpha1.PoolAnnotation, "beside"))
	w.add("one", ofIPv6, key)
	w.add("two", ofIPv6, key, onPort(81))
	w.settled(t)
	want := map[string]string{}
	for _, name := range []string{"both", "beside", "one", "two"} {
		if want[name] = strings.Replace(w.has(name), "2001:db8:1:", "2001:db8:2:", 1); want[name] == "" {
			t.Fatalf("Service %s has no address: %s", name, w.says(name))
		}
	}
	if want["one"] != want["two"] || strings.Count(want["both"], ",") != 1 {
		t.Fatalf("they have %v", want)
	}
	inPrefix(home, "2001:db8:2::/64")
	before := w.live()
	w.told(before...)
	w.add("three", ofIPv6, key, onPort(82))
	w.told(before...)
	want["three"] = want["one"]
	w.settled(t)
	for name, address := range want {
		if got := w.has(name); got != address {
			t.Errorf("Service %s has %q, want %q: %s", name, got, address, w.says(name))
		}
	}
	delete(w.services, types.NamespacedName{Namespace: "default", Name: "both"})
	inPrefix(home, "")
	w.add("new", both)
	w.settled(t)
	if got := w.says("new"); w.has("new") != "" || !strings.HasPrefix(got, "PoolNotReady") {
		t.Errorf("without a prefix it has %q, and says %q", w.has("new"), got)
	}
}

// TestFollow_Thousand: a thousand Services follow at once, and each keeps its host part.
func TestFollow_Thousand(t *testing.T) {
	w := newWorld(dynamicPool("home", "2001:db8:1::/64", "::f000:0/112"), addressPool("lan", "10.0.0.0/16"))
	for n := range 1000 {
		w.add(fmt.Sprint("s", n), ofIPv6)
	}
	w.settled(t)
	want := map[types.NamespacedName]string{}
	for name := range w.services {
		want[name] = strings.Replace(w.has(name.Name), "2001:db8:1:", "2001:db8:2:", 1)
	}
	inPrefix(w.pools[0], "2001:db8:2::/64")
	w.settled(t)
	for name, address := range want {
		if got := w.has(name.Name); got != address || !strings.HasPrefix(got, "2001:db8:2::f000:") {
			t.Fatalf("Service %s has %q, want %q", name, got, address)
		}
	}
}
