package allocator

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Request is what a Service asks for.
type Request struct {
	addresses []netip.Addr
	Pool      string
	sharing
	moves    []v1alpha1.Move
	reassign bool
	NodeIP   bool // LevelAnnotation
}

// AddressAnnotations are those that ask for addresses. Ours come first, then those of MetalLB, kube-vip and Cilium, so that
// charts need no edits after a migration.
func AddressAnnotations() []string {
	return []string{
		v1alpha1.AddressesAnnotation, "metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs",
		"kube-vip.io/loadbalancerIPs", "lbipam.cilium.io/ips", "io.cilium/lb-ipam-ips",
	}
}

func poolAnnotations() []string {
	return []string{v1alpha1.PoolAnnotation, "metallb.io/address-pool", "metallb.universe.tf/address-pool"}
}

// requestOf reads what the Service asks for. An address that cannot be read, or of a family that the Service does not
// have, is a finding.
func requestOf(service *corev1.Service) (Request, *finding.Finding) {
	first := func(keys []string) (string, string) { return firstOf(service, keys) }
	r := Request{
		sharing:  sharingOf(service),
		moves:    MovesOf(service),
		reassign: service.Annotations[v1alpha1.ReassignAnnotation] == "true",
		NodeIP:   service.Annotations[v1alpha1.LevelAnnotation] == string(v1alpha1.LevelNodeIP),
	}
	_, r.Pool = first(poolAnnotations())
	from, text := first(AddressAnnotations())
	if text == "" {
		from, text = "spec.loadBalancerIP", service.Spec.LoadBalancerIP
	}
	families := map[bool]bool{}
	for _, part := range strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' }) {
		address, err := netip.ParseAddr(part)
		if err != nil {
			// Of a Gateway's spec.addresses some implementations write a host name there.
			return r, finding.AddressOutsidePools.Errorf("%s: %q is no IP address", from, part)
		}
		address = address.Unmap().WithZone("")
		if !slices.Contains(Families(service), address.Is6()) {
			return r, finding.NoSuchFamily.Errorf("%s: %s is not of the Service's ipFamilies %v", from, address,
				service.Spec.IPFamilies)
		}
		if families[address.Is6()] {
			return r, finding.NoSuchFamily.Errorf("%s: %q has two addresses of one family", from, text)
		}
		families[address.Is6()] = true
		r.addresses = append(r.addresses, address)
	}
	return r, nil
}

// firstOf is the first of the annotations that the Service has, and its value.
func firstOf(service *corev1.Service, keys []string) (string, string) {
	for _, key := range keys {
		if value := service.Annotations[key]; value != "" {
			return key, value
		}
	}
	return "", ""
}

// Addresses are those that the Service asks for.
func (r Request) Addresses() []netip.Addr { return slices.Clone(r.addresses) }

// of returns the address of the family that is asked for.
func (r Request) of(ipv6 bool) (netip.Addr, bool) {
	i := slices.IndexFunc(r.addresses, func(a netip.Addr) bool { return a.Is6() == ipv6 })
	if i < 0 {
		return netip.Addr{}, false
	}
	return r.addresses[i], true
}

// Families are the families of the Service in its order; true is IPv6.
func Families(service *corev1.Service) []bool {
	var list []bool
	for _, family := range service.Spec.IPFamilies {
		list = append(list, family == corev1.IPv6Protocol)
	}
	if len(list) == 0 {
		return []bool{false}
	}
	return list
}

// NeedsAll says that the Service wants all of its families or none.
func NeedsAll(service *corev1.Service) bool {
	policy := service.Spec.IPFamilyPolicy
	return policy == nil || *policy != corev1.IPFamilyPolicyPreferDualStack
}

// Served reports whether the Service is ours: of type LoadBalancer, of our class or none, and not being deleted.
func Served(service *corev1.Service) bool {
	return service.Spec.Type == corev1.ServiceTypeLoadBalancer && service.DeletionTimestamp == nil &&
		(service.Spec.LoadBalancerClass == nil || *service.Spec.LoadBalancerClass == v1alpha1.LoadBalancerClass)
}

// NameOf is the key of a Service.
func NameOf(service *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: service.Namespace, Name: service.Name}
}

// Earlier are the addresses that the Service had, from its annotation and then from its status: requests only, since
// tenants who write Services can write them.
func Earlier(service *corev1.Service, fromStatus bool) []netip.Addr {
	var texts []string
	if fromStatus {
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			texts = append(texts, ingress.IP)
		}
	} else {
		texts = strings.Split(service.Annotations[v1alpha1.AllocatedAnnotation], ",")
	}
	var list []netip.Addr
	for _, text := range texts {
		if address, err := netip.ParseAddr(strings.TrimSpace(text)); err == nil {
			list = append(list, address.Unmap().WithZone(""))
		}
	}
	return list
}

// The reasons of the condition when it is True.
const (
	AnnouncedReason = "Announced"
	NodeIPReason    = "NodeIP"
	OutOfPoolReason = "OutOfPool"
)

// OutOfPools is what the condition says of an address that stays though no pool has it.
const OutOfPools = " is in no AddressPool"

// Condition is the one of ours; nil: nothing was said of the Service.
func Condition(service *corev1.Service) *metav1.Condition {
	return meta.FindStatusCondition(service.Status.Conditions, v1alpha1.LoadBalancerReady)
}

// SaidToBeClaimed tells whether the last that we have said of a Service is that it has claimed addresses, that it keeps this one, or what keeps
// packets from this one, or from that which is to replace it. In such a message the first two parts are ours; what users write may be quoted
// after them.
func SaidToBeClaimed(service *corev1.Service, address netip.Addr) bool {
	c := Condition(service)
	switch {
	case c == nil:
		return false
	case c.Status == metav1.ConditionTrue:
		return slices.Contains([]string{AnnouncedReason, OutOfPoolReason}, c.Reason)
	}
	if _, kept := keptFrom(c, address); kept {
		return true
	}
	if !slices.ContainsFunc([]finding.ID{finding.NotAnnounced, finding.AddressConflict, finding.AgentSilent, finding.NoReadyEndpoint},
		func(id finding.ID) bool { return id.Kind().Reason == c.Reason }) {
		return false
	}
	parts := strings.SplitN(c.Message, "; ", 3)
	return slices.ContainsFunc(strings.Fields(strings.Join(parts[:min(len(parts), 2)], " ")), func(word string) bool {
		return word == address.String() || word == address.String()+":"
	})
}

// requestedUnder reports whether the Service requests the host part of a published address under another prefix.
func (as *Assignment) requestedUnder(a *allocation, published netip.Addr) bool {
	wanted, asks := a.wanted(as, true)
	p := as.formerPool(a.Snapshot, published)
	if !asks || p == nil {
		return false
	}
	next, ok := p.under(published)
	return ok && next == wanted
}

// sameHost reports whether both addresses have one host part of the pool that the claim of the first one is from. The claim of the other one,
// which may have been released or lost, is of no other pool.
func (a *allocation) sameHost(own, other netip.Addr) bool {
	p := poolNamed(a.Pools, a.Claims[own].Pool)
	if p == nil || !p.hasHost(own) || !other.Is6() {
		return false
	}
	if c := a.Claims[other]; c != nil && c.Pool != p.Name {
		return false
	}
	length := int(p.Spec.DynamicPrefix.Length)
	in := PoolOf(a.Pools, other)
	return hostPart(other, length) == hostPart(own, length) && (in == nil || in == p)
}

// lostClaims are what claims of the published IPv6 addresses of a Service would say, which may have been lost.
func (as *Assignment) lostClaims(s *Snapshot) []*Claim {
	var list []*Claim
	for _, address := range as.restorable(s) {
		p := PoolOf(s.Pools, address)
		if p == nil {
			p = as.formerPool(s, address)
		}
		if p != nil && address.Is6() {
			list = append(list, &Claim{Address: address, Pool: p.Name})
		}
	}
	return list
}

// formerPool is the pool that a published address is from whose prefix is another one now, or not known: the one that our condition names,
// or else the only one that has its host part and may give the Service addresses. Nil: the address is in a pool, our condition does not speak
// of it, or more than one pool could be meant, or one that is gone.
func (as *Assignment) formerPool(s *Snapshot, address netip.Addr) *Pool {
	if !address.Is6() || PoolOf(s.Pools, address) != nil || !SaidToBeClaimed(as.Service, address) {
		return nil
	}
	said := Condition(as.Service)
	if name, kept := keptFrom(said, address); kept {
		if p := poolNamed(s.Pools, name); p != nil && p.Spec.DynamicPrefix != nil {
			return p
		}
		return nil
	}
	if said.Reason == OutOfPoolReason || strings.Contains(said.Message, address.String()+OutOfPools) {
		return nil
	}
	var found *Pool
	for _, p := range s.Pools {
		switch {
		case !p.hasHost(address) || !as.mayBeOf(p, s):
		case found != nil:
			return nil
		default:
			found = p
		}
	}
	return found
}

// keptFrom is the pool by whose prefix a Service has the address, by what the condition says. Only tellKept begins a message so: what users
// write is quoted after that.
func keptFrom(said *metav1.Condition, address netip.Addr) (string, bool) {
	text, is := strings.CutPrefix(said.Message, "the prefix of AddressPool/")
	name, text, named := strings.Cut(text, " is ")
	_, text, _ = strings.Cut(text, ": ")
	return name, is && named && strings.HasPrefix(text, address.String()+" stays: ")
}
