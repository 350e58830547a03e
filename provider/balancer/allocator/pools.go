package allocator

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
	"k8s.io/utils/ptr"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/controlplane"
)

// Pool is an AddressPool that was read.
type Pool struct {
	*v1alpha1.AddressPool
	Set *netipx.IPSet
	// Free is set without the addresses of others, which overlaps names. What was given before stays.
	Free     *netipx.IPSet
	Overlaps []Overlap
	// Problem is why it gives nothing. What it gave stays.
	Problem error
	// namespaces, services and any are its spec.serve.
	namespaces, services labels.Selector
	// hosts and prefix are of spec.dynamicPrefix; nil: there is none, invalid: it is not known. Completed are the hosts with it, which overlap
	// may keep out of the set.
	hosts, completed *netipx.IPSet
	prefix           netip.Prefix
	overlap          error
}

// NamedErrors are as many as one message has room for.
const NamedErrors = 3

// Overlap is what the pool does not give, since it belongs to the Node or, for nil, to the control plane or a router.
type Overlap struct {
	Node *corev1.Node
	Text string
}

// ReadPools reads pools, the one with the highest priority first, and looks for what overlaps. Of two pools whose ranges overlap,
// the younger one gives nothing. Host parts give way to all ranges.
func ReadPools(objects []*v1alpha1.AddressPool, hosts []*Host, cidrs []*networkingv1.ServiceCIDR,
	plane controlplane.Addresses, routers Routers,
) []*Pool {
	objects = slices.SortedFunc(slices.Values(objects), func(a, b *v1alpha1.AddressPool) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	var pools []*Pool
	for _, object := range objects {
		p := readPool(object)
		if p.Problem == nil {
			p.Problem = p.conflict(pools, cidrs)
		}
		pools = append(pools, p)
	}
	for _, p := range pools {
		if p.completed != nil {
			p.Problem = cmp.Or(p.Problem, p.addCompleted(pools, cidrs))
		}
		p.Free = p.Set
		if p.Problem == nil {
			p.Problem = p.subtract(hosts, plane, routers)
		}
	}
	slices.SortFunc(pools, func(a, b *Pool) int {
		return cmp.Or(cmp.Compare(b.Spec.Priority, a.Spec.Priority), cmp.Compare(a.Name, b.Name))
	})
	return pools
}

func readPool(object *v1alpha1.AddressPool) *Pool {
	p := &Pool{AddressPool: object, Set: &netipx.IPSet{}}
	ranges, err := parseRanges(object.Spec.Ranges, ptr.Deref(object.Spec.AvoidEnds, true))
	if err != nil {
		p.Problem = err
		return p
	}
	without, err := parseRanges(object.Spec.Exclude, false)
	if err != nil {
		p.Problem = err
		return p
	}
	completed, err := p.complete(without)
	if err != nil {
		p.Problem = err
		return p
	}
	p.completed = completed
	if p.Set, p.Problem = setOf(ranges, without); p.Problem != nil {
		p.Set = &netipx.IPSet{}
		return p
	}
	if p.namespaces, p.Problem = selector(object.Spec.Serve.NamespaceSelector); p.Problem != nil {
		return p
	}
	if p.services, p.Problem = selector(object.Spec.Serve.ServiceSelector); p.Problem != nil {
		return p
	}
	for _, s := range []*metav1.LabelSelector{object.Spec.Nodes, object.Spec.PreferredNodes.Selector} { // agents go by these
		if _, p.Problem = selector(s); p.Problem != nil {
			return p
		}
	}
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
func (p *Pool) conflict(others []*Pool, cidrs []*networkingv1.ServiceCIDR) error {
	for _, other := range others {
		if p.Set.Overlaps(other.Set) {
			return fmt.Errorf("addresses are also those of the older AddressPool/%s", other.Name)
		}
	}
	return ofCluster(p.Set, cidrs)
}

// ofCluster names a range of cluster IPs that overlaps the set.
func ofCluster(set *netipx.IPSet, cidrs []*networkingv1.ServiceCIDR) error {
	for _, object := range cidrs {
		for _, cidr := range Prefixes(object.Spec.CIDRs) {
			if set.OverlapsPrefix(cidr) {
				return fmt.Errorf("%s is ServiceCIDR/%s: cluster IPs come from there", cidr, object.Name)
			}
		}
	}
	return nil
}

// subtract takes out of what is free the addresses of the control plane, of routers and of Nodes. Kubelets write the latter,
// so that one Node costs an address of each family, and never the pool; a range of pods counts only if its Node is older than
// the pool.
func (p *Pool) subtract(hosts []*Host, plane controlplane.Addresses, routers Routers) (err error) {
	var b netipx.IPSetBuilder
	b.AddSet(p.Set)
	without := func(node *corev1.Node, r netip.Prefix, format string, args ...any) {
		if p.Set.OverlapsPrefix(r) {
			b.RemovePrefix(r)
			p.Overlaps = append(p.Overlaps, Overlap{Node: node, Text: fmt.Sprintf(format, args...)})
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
		for _, a := range h.Addresses {
			without(h.Node, alone(a.Addr), "%s is the %s of Node/%s", a, a.Kind, h.Name)
		}
		if p.CreationTimestamp.Before(&h.CreationTimestamp) {
			continue
		}
		for _, pods := range h.Pods {
			without(h.Node, pods, "%s belongs to the pods of Node/%s", pods, h.Name)
		}
	}
	p.Free, err = b.IPSet()
	return err
}

// owner says whose the address is, where the pool does not give it.
func (p *Pool) owner(address netip.Addr) string {
	for _, o := range p.Overlaps {
		if strings.HasPrefix(o.Text, address.String()+" ") {
			return o.Text
		}
	}
	return fmt.Sprintf("%s belongs to the pods of a Node", address)
}

// Except lists the addresses that are not given.
func (p *Pool) Except() string {
	var texts []string
	for _, o := range p.Overlaps[:min(len(p.Overlaps), NamedErrors)] {
		texts = append(texts, o.Text)
	}
	if more := len(p.Overlaps) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

// gives reports whether new addresses come from the pool.
func (p *Pool) gives() bool {
	return p.Problem == nil && !p.Spec.Disabled && p.DeletionTimestamp == nil
}

// serves reports whether the Service may have an address of the pool.
func (p *Pool) serves(service *corev1.Service, namespaces map[string]labels.Set) bool {
	s := p.Spec.Serve
	limited := len(s.Namespaces) > 0 || p.namespaces != nil
	named := slices.Contains(s.Namespaces, service.Namespace)
	selected := p.namespaces != nil && p.namespaces.Matches(namespaces[service.Namespace])
	return (!limited || named || selected) && (p.services == nil || p.services.Matches(labels.Set(service.Labels)))
}

// has reports whether there is any address of the family.
func (p *Pool) has(ipv6 bool) bool {
	return slices.ContainsFunc(p.Set.Ranges(), func(r netipx.IPRange) bool { return r.From().Is6() == ipv6 })
}

// level of an address of the pool. Auto decides once, when the address is given: one BGPPeer more or less, which may be
// wrong, must not move what works.
func (p *Pool) level(now v1alpha1.Level, peers bool) v1alpha1.Level {
	switch {
	case p != nil && p.Spec.Level.Announced():
		return p.Spec.Level
	case now != "":
		return now
	case peers:
		return v1alpha1.LevelBGP
	}
	return v1alpha1.LevelL2
}

// reuseAfter is the CRD's default where the pool is gone.
func (p *Pool) reuseAfter() time.Duration {
	if p == nil {
		return time.Minute
	}
	return p.Spec.ReuseAfter.Duration
}

// poolNamed is nil for a pool that is gone.
func poolNamed(pools []*Pool, name string) *Pool {
	if i := slices.IndexFunc(pools, func(p *Pool) bool { return p.Name == name }); i >= 0 {
		return pools[i]
	}
	return nil
}

// PoolOf returns the pool that has the address; rather one that gives.
func PoolOf(pools []*Pool, address netip.Addr) *Pool {
	var found *Pool
	for _, p := range pools {
		if p.Set.Contains(address) && (found == nil || !found.gives() && p.gives()) {
			found = p
		}
	}
	return found
}
