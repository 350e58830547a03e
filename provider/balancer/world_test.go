package balancer

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
	"github.com/ccmadm/ccmadm/provider/controlplane"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world is a cluster in memory: objects, and a clock.
type world struct {
	now       time.Time
	services  map[types.NamespacedName]*corev1.Service
	objects   map[string]*networkingv1.IPAddress
	pools     []*v1alpha1.AddressPool
	conflicts map[netip.Addr]bool
	peers     bool
	nodes     []*corev1.Node
	agents    []*v1alpha1.NodeAgent
	made      int
	proxy     evaluation.Proxy
	plane     controlplane.Addresses
}

func newWorld(pools ...*v1alpha1.AddressPool) *world {
	return &world{
		now: start, services: map[types.NamespacedName]*corev1.Service{}, objects: map[string]*networkingv1.IPAddress{},
		pools: pools, conflicts: map[netip.Addr]bool{},
	}
}

func addressPool(name string, ranges ...string) *v1alpha1.AddressPool {
	return &v1alpha1.AddressPool{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(start)},
		Spec:       v1alpha1.AddressPoolSpec{Ranges: ranges, ReuseAfter: metav1.Duration{Duration: time.Minute}},
	}
}

// add makes a Service of type LoadBalancer with port 80.
func (w *world) add(name string, changes ...func(*corev1.Service)) *corev1.Service {
	w.made++
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(fmt.Sprint(w.made)), Annotations: map[string]string{},
			CreationTimestamp: metav1.NewTime(start.Add(time.Duration(w.made) * time.Second)),
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
	for _, change := range changes {
		change(s)
	}
	w.services[allocator.NameOf(s)] = s
	return s
}

func annotated(key, value string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Annotations[key] = value }
}

func onPort(number int32) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Ports[0].Port = number }
}

func families(policy corev1.IPFamilyPolicy, list ...corev1.IPFamily) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.IPFamilies, s.Spec.IPFamilyPolicy = list, &policy }
}

func (w *world) snapshot() *allocator.Snapshot {
	s := &allocator.Snapshot{
		Now: w.now, Pools: allocator.ReadPools(w.pools, allocator.HostsOf(w.nodes, nil), nil, w.plane, nil), Conflicts: w.conflicts, Peers: w.peers,
		Nodes: evaluation.NewMachines(allocator.HostsOf(w.nodes, nil), nil, nil).Addresses, Plane: w.plane,
	}
	for _, service := range w.services {
		s.Known = append(s.Known, service)
	}
	for _, object := range w.objects {
		c, _ := allocator.ParseClaim(object)
		s.Present = append(s.Present, c)
	}
	return s
}

// step is one write of a plan.
type step func()

// claimSteps are what a pass writes of claims.
func (w *world) claimSteps(p *allocator.Plan) []step {
	var claims []step
	for _, address := range slices.SortedFunc(maps.Keys(p.Claims), netip.Addr.Compare) {
		c := p.Claims[address]
		object := c.Render()
		if c.Object == nil {
			claims = append(claims, func() {
				if w.objects[object.Name] != nil {
					panic("create what is there")
				}
				object.CreationTimestamp = metav1.NewTime(w.now)
				w.objects[object.Name] = object
			})
		} else if !cmp.Equal(object, c.Object) {
			claims = append(claims, func() { w.objects[object.Name] = object })
		}
	}
	for _, c := range p.Drop {
		claims = append(claims, func() { delete(w.objects, c.Address.String()) })
	}
	return claims
}

// steps are what a pass writes, claims first.
func (w *world) steps(p *allocator.Plan) []step {
	var rest []step
	for name, as := range p.Services {
		if as.Moot {
			rest = append(rest, func() { delete(w.services[name].Annotations, v1alpha1.ReassignAnnotation) })
		}
		if list := as.Addresses(); len(list) > 0 {
			rest = append(rest, func() {
				if s := w.services[name]; s != nil {
					s.Annotations[v1alpha1.AllocatedAnnotation] = evaluation.Join(list)
					s.Status.LoadBalancer.Ingress = nil
					for _, address := range list {
						ingress := corev1.LoadBalancerIngress{IP: address.String()}
						s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, ingress)
					}
					saysAnnounced(s)
					if as.Reassigned {
						delete(s.Annotations, v1alpha1.ReassignAnnotation)
					}
				}
			})
		}
	}
	return append(w.claimSteps(p), rest...)
}

// planned is a plan that was carried out.
type planned struct{ *allocator.Plan }

// pass makes a plan and carries it out.
func (w *world) pass() planned {
	p := allocator.Allocate(w.snapshot())
	for _, do := range w.steps(p) {
		do()
	}
	return planned{p}
}

func (p planned) of(s *corev1.Service) string {
	return evaluation.Join(p.Services[allocator.NameOf(s)].Addresses())
}

func (p planned) reason(s *corev1.Service) string {
	if problem := p.Services[allocator.NameOf(s)].Problem; problem != nil {
		return problem.Reason
	}
	return ""
}

func limited(name, namespace string) *v1alpha1.AddressPool {
	p := addressPool(name, "192.0.2.200")
	p.Spec.Serve.Namespaces = []string{namespace}
	return p
}

func unasked(name string) *v1alpha1.AddressPool {
	p := addressPool(name, "192.0.2.200")
	p.Spec.AutoAssign = new(false)
	return p
}
