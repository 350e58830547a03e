package lbmove

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/externalips"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/output"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world is a cluster in memory, with Services ingress/old and gateway/new side by side.
type world struct {
	externalips.Cluster
	slices []discoveryv1.EndpointSlice
}

func newWorld() *world {
	pool := v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: "lan", CreationTimestamp: metav1.NewTime(now)}}
	pool.Spec.Ranges = []string{"192.0.2.50-192.0.2.59", "2001:db8::50-2001:db8::59"}
	w := &world{Cluster: externalips.Cluster{
		Now: now, Defined: true, Pools: []v1alpha1.AddressPool{pool},
		Namespaces: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "ingress"}}, {ObjectMeta: metav1.ObjectMeta{Name: "gateway"}}},
	}}
	w.add("ingress/old", "192.0.2.50")
	w.add("gateway/new", "192.0.2.51")
	w.slices = []discoveryv1.EndpointSlice{{Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.1.2"}}}}}
	return w
}

// add is a Service with port 443 and addresses that are announced.
func (w *world) add(name string, addresses ...string) *corev1.Service {
	namespace, short, _ := strings.Cut(name, "/")
	s := corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: short, Annotations: map[string]string{}, CreationTimestamp: metav1.NewTime(now)},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Port: 443, Protocol: corev1.ProtocolTCP}},
		},
	}
	for _, address := range addresses {
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: address})
		w.claim(address, name)
	}
	w.Services = append(w.Services, s)
	return &w.Services[len(w.Services)-1]
}

// claim gives an address to Services.
func (w *world) claim(address string, owners ...string) {
	namespace, name, _ := strings.Cut(owners[0], "/")
	object := networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name: address, Labels: map[string]string{networkingv1.LabelManagedBy: v1alpha1.ClaimManager},
			Annotations: map[string]string{
				v1alpha1.ClaimPoolAnnotation: "lan", v1alpha1.ClaimLevelAnnotation: "L2", v1alpha1.ClaimProbedAnnotation: "2026-01-01T00:00:00Z",
				v1alpha1.ClaimSharersAnnotation: strings.Join(owners[1:], ","),
			},
		},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: namespace, Name: name}},
	}
	for i := range w.Claims {
		if w.Claims[i].Name == address {
			w.Claims[i] = object
			return
		}
	}
	w.Claims = append(w.Claims, object)
}

func (w *world) old() *corev1.Service  { return w.named("ingress/old") }
func (w *world) next() *corev1.Service { return w.named("gateway/new") }

func (w *world) named(name string) *corev1.Service {
	for i := range w.Services {
		if allocator.NameOf(&w.Services[i]).String() == name {
			return &w.Services[i]
		}
	}
	return nil
}

func (w *world) plan() *Plan {
	return newPlan(&w.Cluster, w.slices, types.NamespacedName{Namespace: "ingress", Name: "old"}, types.NamespacedName{Namespace: "gateway", Name: "new"})
}

// carryOut sets the annotations of a plan.
func (w *world) carryOut(p *Plan) {
	for _, name := range []string{p.Old, p.New} {
		*w.named(name) = *p.changed(w.named(name))
	}
}

func publish(s *corev1.Service, addresses ...string) {
	s.Status.LoadBalancer.Ingress = nil
	for _, address := range addresses {
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: address})
	}
}

// A plan has two annotations. Once they are set it is under way, then done; and a Service that gave the address gets it back.
func TestPlan_ThereAndBack(t *testing.T) {
	w := newWorld()
	p := w.plan()
	const want = "[{ingress/old ccmadm.dev/move-to  192.0.2.50=gateway/new} {gateway/new ccmadm.dev/addresses  192.0.2.50}]"
	if got := fmt.Sprint(p.Changes); got != want || p.State != Planned || len(p.Checks) > 0 || p.refused(false, false) != nil {
		t.Fatalf("%s: %s\nwant %s\nfailed: %v", p.State, got, want, p.Checks)
	}
	if notes := strings.Join(p.Notes, "\n"); !strings.Contains(notes, "gateway/new gives up its present address 192.0.2.51") ||
		!strings.Contains(notes, "ingress/old gets another address, such as 192.0.2.5") {
		t.Errorf("notes: %s", notes)
	}
	cut := newWorld() // a run that ended behind its first write
	cut.old().Annotations[v1alpha1.MoveToAnnotation] = "192.0.2.50=gateway/new"
	if p := cut.plan(); p.State != Planned || len(p.Changes) != 1 || p.Changes[0].Service != "gateway/new" || len(p.Checks) > 0 {
		t.Errorf("after a cut: %s %v %v", p.State, p.Changes, p.Checks)
	}
	w.carryOut(p)
	if p := w.plan(); p.State != UnderWay || len(p.Changes) > 0 || len(p.Checks) > 0 {
		t.Errorf("under way: %s %v %v", p.State, p.Changes, p.Checks)
	}
	w.claim("192.0.2.50", "gateway/new")
	w.claim("192.0.2.52", "ingress/old")
	publish(w.next(), "192.0.2.50")
	if p := w.plan(); p.State != UnderWay {
		t.Errorf("both have it: %s", p.State)
	}
	publish(w.old(), "192.0.2.52")
	p = w.plan()
	if p.State != Moved || fmt.Sprint(p.Addresses) != "[192.0.2.50]" || p.refused(false, false) != nil {
		t.Errorf("done: %s %v %v", p.State, p.Addresses, p.Checks)
	}

	back := newPlan(&w.Cluster, w.slices, allocator.NameOf(w.next()), allocator.NameOf(w.old()))
	const returned = "[{gateway/new ccmadm.dev/move-to  192.0.2.50=ingress/old} {ingress/old ccmadm.dev/move-to 192.0.2.50=gateway/new } " +
		"{ingress/old ccmadm.dev/addresses  192.0.2.50}]"
	if got := fmt.Sprint(back.Changes); got != returned || len(back.Checks) > 0 {
		t.Errorf("back: %s\nwant %s\nfailed: %v", got, returned, back.Checks)
	}
}

// Both families move, and NEW keeps what it asks for of another one.
func TestPlan_Families(t *testing.T) {
	w := newWorld()
	dual := []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	w.old().Spec.IPFamilies, w.next().Spec.IPFamilies = dual, dual
	w.next().Annotations[v1alpha1.AddressesAnnotation] = "2001:db8::59"
	if p := w.plan(); len(p.Checks) > 0 || p.Changes[1].After != "192.0.2.50,2001:db8::59" {
		t.Errorf("one of two: %v %v", p.Changes, p.Checks)
	}
	w.next().Annotations = map[string]string{}
	publish(w.old(), "192.0.2.50", "2001:db8::50")
	w.claim("2001:db8::50", "ingress/old")
	p := w.plan()
	if len(p.Checks) > 0 || p.Changes[0].After != "192.0.2.50=gateway/new,2001:db8::50=gateway/new" || p.Changes[1].After != "192.0.2.50,2001:db8::50" {
		t.Errorf("both: %v %v", p.Changes, p.Checks)
	}
}

// The first family has moved, as Git had only that; the rest of OLD is meant, too. A move of all that --release-old has ended is done.
func TestPlan_TheOtherFamily(t *testing.T) {
	w := newWorld()
	dual := []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	w.old().Spec.IPFamilies, w.next().Spec.IPFamilies = dual, dual
	w.old().Annotations[v1alpha1.MoveToAnnotation] = "192.0.2.50=gateway/new"
	w.next().Annotations[v1alpha1.AddressesAnnotation] = "192.0.2.50"
	w.claim("192.0.2.50", "gateway/new")
	w.claim("192.0.2.52", "ingress/old")
	w.claim("2001:db8::50", "ingress/old")
	publish(w.old(), "192.0.2.52", "2001:db8::50")
	publish(w.next(), "192.0.2.50")
	p := w.plan()
	if fmt.Sprint(p.Addresses) != "[192.0.2.50 2001:db8::50]" || p.State != Planned || len(p.Checks) > 0 {
		t.Errorf("%s %v, failed %v", p.State, p.Addresses, p.Checks)
	}
	w.carryOut(p)
	w.claim("2001:db8::50", "gateway/new")
	publish(w.old(), "192.0.2.52")
	publish(w.next(), "192.0.2.50", "2001:db8::50")
	if p := w.plan(); p.State != Moved {
		t.Errorf("both have moved: %s %v", p.State, p.Checks)
	}
	w.old().Spec.Type = corev1.ServiceTypeClusterIP
	publish(w.old())
	if p := w.plan(); p.State != Moved || len(p.Addresses) != 2 || len(p.Checks) > 0 {
		t.Errorf("OLD is of type ClusterIP: %s %v, failed %v", p.State, p.Addresses, p.Checks)
	}
}

// What is refused, whether --force skips it, and what to do.
func TestPlan_Refused(t *testing.T) {
	class, other := "example.com/lb", v1alpha1.MoveToAnnotation
	for _, tt := range []struct {
		name    string
		prepare func(*world)
		want    string
		force   bool
	}{
		{"no OLD", func(w *world) { w.old().Name = "gone" }, "Service/ingress/old does not exist", false},
		{"no NEW", func(w *world) { w.next().Name = "gone" }, "Service/gateway/new does not exist", false},
		{
			"another type",
			func(w *world) { w.next().Spec.Type = corev1.ServiceTypeClusterIP },
			"Service/gateway/new is of type ClusterIP, not LoadBalancer", false,
		},
		{
			"another class",
			func(w *world) { w.next().Spec.LoadBalancerClass = &class },
			"Service/gateway/new is of class example.com/lb, which another program serves", false,
		},
		{
			"deleted",
			func(w *world) { w.old().DeletionTimestamp = &metav1.Time{Time: now} },
			"Service/ingress/old is being deleted", false,
		},
		{"no address", func(w *world) { publish(w.old()) }, "Service/ingress/old has no address", false},
		{
			"an address of a Node",
			func(w *world) { publish(w.old(), "198.18.0.1") },
			"Service/ingress/old has 198.18.0.1, which ccmadm did not assign from an AddressPool", false,
		},
		{"no endpoint", func(w *world) { w.slices = nil }, "Service/gateway/new has no ready endpoint", true},
		{
			"an endpoint that is not ready",
			func(w *world) { w.slices[0].Endpoints[0].Conditions.Ready = new(false) },
			"Service/gateway/new has no ready endpoint", true,
		},
		{
			"a port is missing",
			func(w *world) {
				w.old().Spec.Ports = append(w.old().Spec.Ports, corev1.ServicePort{Port: 443, Protocol: corev1.ProtocolUDP})
			},
			"Service/gateway/new has no port 443/UDP", true,
		},
		{
			"a pool for OLD's namespace",
			func(w *world) { w.Pools[0].Spec.Serve.Namespaces = []string{"ingress"} },
			"would not move 192.0.2.50: NoPoolServes: AddressPool/lan contains 192.0.2.50 but does not serve the Service", false,
		},
		{
			"another family",
			func(w *world) { w.next().Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} },
			"Service/gateway/new has ipFamilies [IPv6], and 192.0.2.50 is IPv4", false,
		},
		{
			"a third Service on OLD's address",
			func(w *world) { w.third("192.0.2.50", "ingress/old", "ingress/third") },
			"192.0.2.50 is shared with Service/ingress/third, which would not move", true,
		},
		{
			"a third Service on NEW's address",
			func(w *world) { w.third("192.0.2.51", "gateway/new", "gateway/third") },
			"Service/gateway/new shares its present address 192.0.2.51 with Service/gateway/third", true,
		},
		{
			"both share it",
			func(w *world) { w.claim("192.0.2.50", "ingress/old", "gateway/new"); publish(w.next(), "192.0.2.50") },
			"Service/ingress/old and Service/gateway/new share 192.0.2.50 already", false,
		},
		{
			"another address that NEW requests",
			func(w *world) { w.next().Annotations["metallb.io/loadBalancerIPs"] = "192.0.2.51" },
			"Service/gateway/new requests another address, 192.0.2.51 (annotation metallb.io/loadBalancerIPs)", true,
		},
		{
			"another address in its spec",
			func(w *world) { w.next().Spec.LoadBalancerIP = "192.0.2.51" },
			"requests another address, 192.0.2.51 (spec.loadBalancerIP)", true,
		},
		{
			"another move",
			func(w *world) { w.old().Annotations[other] = "192.0.2.50=shop/web" },
			"192.0.2.50 is about to move from Service/ingress/old to Service/shop/web", true,
		},
		{
			"all clients",
			func(w *world) { w.old().Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"} },
			"Service/ingress/old lets in only 10.0.0.0/8, and Service/gateway/new would let in all IPv4 clients", true,
		},
		{
			"all clients, as the annotation keeps none away",
			func(w *world) {
				w.old().Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"}
				w.next().Annotations[corev1.AnnotationLoadBalancerSourceRangesKey] = "10.0.0.0/8"
			},
			"would let in all IPv4 clients", true,
		},
		{
			"all clients of one family",
			func(w *world) {
				for _, s := range []*corev1.Service{w.old(), w.next()} {
					s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
				}
				w.claim("2001:db8::50", "ingress/old")
				publish(w.old(), "192.0.2.50", "2001:db8::50")
				w.old().Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8", "2001:db8:1::/48"}
				w.next().Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"}
			},
			"lets in only 2001:db8:1::/48, and Service/gateway/new would let in all IPv6 clients", true,
		},
		{
			"other clients",
			func(w *world) {
				w.old().Annotations[corev1.AnnotationLoadBalancerSourceRangesKey] = "10.0.0.0/8, 192.168.0.0/16"
				w.next().Spec.LoadBalancerSourceRanges = []string{"10.1.0.0/16", "192.0.0.0/8"}
			},
			"would let in 192.0.0.0/8", true,
		},
		{
			"addresses of Nodes",
			func(w *world) { w.next().Annotations[v1alpha1.LevelAnnotation] = "NodeIP" },
			"Service/gateway/new has annotation ccmadm.dev/level: NodeIP", false,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.prepare(w)
			p := w.plan()
			found := false
			for _, c := range p.Checks {
				found = found || strings.Contains(c.Message, tt.want) && c.Force == tt.force && c.Do != ""
			}
			if !found {
				t.Errorf("failed checks %+v, want %q, force %t", p.Checks, tt.want, tt.force)
			}
			if err := p.refused(false, false); err == nil {
				t.Error("it is not refused")
			}
			if err := p.refused(true, false); (err == nil) != tt.force {
				t.Errorf("with --force: %v", err)
			}
		})
	}
}

// third shares an address with an owner.
func (w *world) third(address, owner, third string) {
	s := w.add(third)
	s.Spec.Ports[0].Port = 25
	publish(s, address)
	w.claim(address, owner, third)
	for _, name := range []string{"ingress/old", "gateway/new", third} {
		w.named(name).Annotations[v1alpha1.ShareKeyAnnotation] = "k"
		w.named(name).Annotations[v1alpha1.ShareNamespacesAnnotation] = "ingress,gateway"
	}
}

// A third Service that may not share the address with NEW is no matter of --force.
func TestPlan_ThirdWithoutConsent(t *testing.T) {
	w := newWorld()
	w.third("192.0.2.50", "ingress/old", "ingress/third")
	delete(w.next().Annotations, v1alpha1.ShareKeyAnnotation)
	if p := w.plan(); p.refused(true, false) == nil || !strings.Contains(fmt.Sprint(p.Checks), "AddressInUse") && !strings.Contains(fmt.Sprint(p.Checks), "SharingConflict") {
		t.Errorf("%+v", p.Checks)
	}
}

// What people see, and nothing that a tenant wrote becomes a line of it.
func TestShow(t *testing.T) {
	w := newWorld()
	w.slices = nil
	w.next().Annotations[v1alpha1.MoveToAnnotation] = "x\n  failed: nothing\x1b[2J"
	p := w.plan()
	var out bytes.Buffer
	m := &move{dryRun: true, output: *output.Named(output.Text), streams: workflow.Streams{Out: &out}}
	err := m.shown(p, p.refused(false, false))
	const want = `Move 192.0.2.50 from Service/ingress/old to Service/gateway/new
  Service/ingress/old: set annotation ccmadm.dev/move-to to 192.0.2.50=gateway/new
  Service/gateway/new: remove annotation ccmadm.dev/move-to
  Service/gateway/new: set annotation ccmadm.dev/addresses to 192.0.2.50
  note: Service/gateway/new gives up its present address 192.0.2.51
  note: Service/ingress/old gets another address, such as 192.0.2.5`
	if !strings.HasPrefix(out.String(), want) || strings.Contains(out.String(), "\x1b") || strings.Contains(out.String(), "Nothing was changed.") {
		t.Errorf("it prints\n%s\nwant\n%s", out.String(), want)
	}
	const failed = "  failed: Service/gateway/new has no ready endpoint (--force skips this check)\n    do: start its pods"
	if !strings.Contains(out.String(), failed) {
		t.Errorf("it prints\n%s\nwant\n%s", out.String(), failed)
	}
	if err == nil || err.Error() != "move the address of Service/ingress/old to Service/gateway/new: 1 check failed, and nothing was changed" {
		t.Errorf("error %v", err)
	}
}
