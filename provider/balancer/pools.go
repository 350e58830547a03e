package balancer

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go4.org/netipx"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/controlplane"
)

// pool is an AddressPool that was read.
type pool struct {
	*v1alpha1.AddressPool
	set *netipx.IPSet
	// free is set without the addresses of others, which overlaps names. What was given before stays.
	free     *netipx.IPSet
	overlaps []overlap
	// problem is why it gives nothing. What it gave stays.
	problem error
	// namespaces, services and any are its spec.serve.
	namespaces, services labels.Selector
}

// overlap is what the pool does not give, since it belongs to the Node or, for nil, to the control plane or a router.
type overlap struct {
	node *corev1.Node
	text string
}

// readPools reads pools, the one with the highest priority first, and looks for what overlaps. Of two pools that
// overlap, the younger one gives nothing.
func readPools(objects []*v1alpha1.AddressPool, hosts []*host, cidrs []*networkingv1.ServiceCIDR,
	plane controlplane.Addresses, routers routers,
) []*pool {
	objects = slices.SortedFunc(slices.Values(objects), func(a, b *v1alpha1.AddressPool) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	var pools []*pool
	for _, object := range objects {
		p := readPool(object)
		if p.problem == nil {
			p.problem = p.conflict(pools, cidrs)
		}
		p.free = p.set
		if p.problem == nil {
			p.problem = p.subtract(hosts, plane, routers)
		}
		pools = append(pools, p)
	}
	slices.SortFunc(pools, func(a, b *pool) int {
		return cmp.Or(cmp.Compare(b.Spec.Priority, a.Spec.Priority), cmp.Compare(a.Name, b.Name))
	})
	return pools
}

func readPool(object *v1alpha1.AddressPool) *pool {
	p := &pool{AddressPool: object, set: &netipx.IPSet{}}
	ranges, err := parseRanges(object.Spec.Ranges, isTrue(object.Spec.AvoidEnds, true))
	if err != nil {
		p.problem = err
		return p
	}
	without, err := parseRanges(object.Spec.Exclude, false)
	if err != nil {
		p.problem = err
		return p
	}
	if p.set, p.problem = setOf(ranges, without); p.problem != nil {
		p.set = &netipx.IPSet{}
		return p
	}
	if p.namespaces, p.problem = selector(object.Spec.Serve.NamespaceSelector); p.problem != nil {
		return p
	}
	p.services, p.problem = selector(object.Spec.Serve.ServiceSelector)
	return p
}

// selector is nil for none.
func selector(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return nil, nil //nolint:nilnil // no selector is no error
	}
	return metav1.LabelSelectorAsSelector(s)
}

// conflict names what an administrator has configured with addresses of the pool.
func (p *pool) conflict(others []*pool, cidrs []*networkingv1.ServiceCIDR) error {
	for _, other := range others {
		if p.set.Overlaps(other.set) {
			return fmt.Errorf("addresses are also those of the older AddressPool/%s", other.Name)
		}
	}
	for _, object := range cidrs {
		for _, cidr := range prefixes(object.Spec.CIDRs) {
			if p.set.OverlapsPrefix(cidr) {
				return fmt.Errorf("%s is ServiceCIDR/%s: cluster IPs come from there", cidr, object.Name)
			}
		}
	}
	return nil
}

// subtract takes out of what is free the addresses of the control plane, of routers and of Nodes. Kubelets write the latter,
// so that one Node costs an address of each family, and never the pool; a range of pods counts only if its Node is older than
// the pool.
func (p *pool) subtract(hosts []*host, plane controlplane.Addresses, routers routers) (err error) {
	var b netipx.IPSetBuilder
	b.AddSet(p.set)
	without := func(node *corev1.Node, r netip.Prefix, format string, args ...any) {
		if p.set.OverlapsPrefix(r) {
			b.RemovePrefix(r)
			p.overlaps = append(p.overlaps, overlap{node: node, text: fmt.Sprintf(format, args...)})
		}
	}
	alone := func(address netip.Addr) netip.Prefix { return netip.PrefixFrom(address, address.BitLen()) }
	for _, addresses := range []map[netip.Addr]bool{plane.Endpoints, plane.Servers} {
		for _, address := range slices.SortedFunc(maps.Keys(addresses), netip.Addr.Compare) {
			without(nil, alone(address), "%s is the control plane's address", address)
		}
	}
	for _, address := range slices.SortedFunc(maps.Keys(routers), netip.Addr.Compare) {
		without(nil, alone(address), "%s is %s", address, routers[address].whose)
	}
	for _, h := range hosts {
		for _, a := range h.addresses {
			without(h.Node, alone(a.Addr), "%s is the %s of Node/%s", a, a.kind, h.Name)
		}
		if p.CreationTimestamp.Before(&h.CreationTimestamp) {
			continue
		}
		for _, pods := range h.pods {
			without(h.Node, pods, "%s belongs to the pods of Node/%s", pods, h.Name)
		}
	}
	p.free, err = b.IPSet()
	return err
}

// owner says whose the address is, where the pool does not give it.
func (p *pool) owner(address netip.Addr) string {
	for _, o := range p.overlaps {
		if strings.HasPrefix(o.text, address.String()+" ") {
			return o.text
		}
	}
	return fmt.Sprintf("%s belongs to the pods of a Node", address)
}

// except lists the addresses that are not given.
func (p *pool) except() string {
	var texts []string
	for _, o := range p.overlaps[:min(len(p.overlaps), namedErrors)] {
		texts = append(texts, o.text)
	}
	if more := len(p.overlaps) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

// gives says whether new addresses come from the pool.
func (p *pool) gives() bool {
	return p.problem == nil && !p.Spec.Disabled && p.DeletionTimestamp == nil
}

// serves says whether the Service may have an address of the pool.
func (p *pool) serves(service *corev1.Service, namespaces map[string]labels.Set) bool {
	s := p.Spec.Serve
	limited := len(s.Namespaces) > 0 || p.namespaces != nil
	named := slices.Contains(s.Namespaces, service.Namespace)
	selected := p.namespaces != nil && p.namespaces.Matches(namespaces[service.Namespace])
	return (!limited || named || selected) && (p.services == nil || p.services.Matches(labels.Set(service.Labels)))
}

// has says whether there is any address of the family.
func (p *pool) has(ipv6 bool) bool {
	return slices.ContainsFunc(p.set.Ranges(), func(r netipx.IPRange) bool { return r.From().Is6() == ipv6 })
}

// level of an address of the pool. Auto decides once, when the address is given: one BGPPeer more or less, which may be
// wrong, must not move what works.
func (p *pool) level(now v1alpha1.Level, peers bool) v1alpha1.Level {
	switch {
	case p != nil && (p.Spec.Level == v1alpha1.LevelL2 || p.Spec.Level == v1alpha1.LevelBGP):
		return p.Spec.Level
	case now != "":
		return now
	case peers:
		return v1alpha1.LevelBGP
	}
	return v1alpha1.LevelL2
}

// reuseAfter is the CRD's default where the pool is gone.
func (p *pool) reuseAfter() time.Duration {
	if p == nil {
		return time.Minute
	}
	return p.Spec.ReuseAfter.Duration
}

func isTrue(b *bool, absent bool) bool {
	if b == nil {
		return absent
	}
	return *b
}
