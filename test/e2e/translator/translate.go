package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// topPriority is more than any test gives: MetalLB takes the pool with the lowest number first, ccmadm the highest.
const topPriority = 1_000_000

// source is the objects of MetalLB in its namespace.
type source struct {
	pools       []ipAddressPool
	l2          []advertisement
	bgp         []advertisement
	peers       []bgpPeer
	bfd         []bfdProfile
	communities []community
	passwords   map[string]string // Secret to its password
}

// result is the objects of ccmadm that do the same.
type result struct {
	pools     []*v1alpha1.AddressPool
	peers     []*v1alpha1.BGPPeer
	passwords map[string]string // keys of Secret kube-system/ccmadm-bgp
}

// translate returns what ccmadm has for these objects, and an error that names each field without a counterpart.
func translate(s source, everywhere []string) (result, error) {
	r := result{passwords: map[string]string{}}
	var missing []error
	for _, p := range s.pools {
		pool, err := s.pool(p, everywhere)
		r.pools, missing = append(r.pools, pool), append(missing, err)
	}
	// A Service that waits for a pool is to find the one that comes first, and not one that is written before it.
	slices.SortStableFunc(r.pools, func(a, b *v1alpha1.AddressPool) int {
		return cmp.Compare(b.Spec.Priority, a.Spec.Priority)
	})
	for _, p := range s.peers {
		peer, password, err := s.peer(p)
		if password != "" {
			r.passwords[p.Name] = password
		}
		r.peers, missing = append(r.peers, peer), append(missing, err)
	}
	return r, errors.Join(missing...)
}

func (s source) pool(p ipAddressPool, everywhere []string) (*v1alpha1.AddressPool, error) {
	pool := &v1alpha1.AddressPool{Spec: v1alpha1.AddressPoolSpec{
		Ranges: p.Spec.Addresses, AutoAssign: p.Spec.AutoAssign, AvoidEnds: new(p.Spec.AvoidBuggyIPs),
		ExcludeLabel: v1alpha1.ExcludeIgnore, ReuseAfter: metav1.Duration{Duration: time.Millisecond},
	}}
	pool.Name = p.Name
	missing := []error{p.serve(&pool.Spec)}
	l2, bgp := of(p, s.l2), of(p, s.bgp)
	var err error
	switch {
	case len(l2) > 0:
		pool.Spec.Level, pool.Spec.Interfaces = v1alpha1.LevelL2, interfaces(l2)
		pool.Spec.Nodes, err = nodes(l2)
	case len(bgp) > 0:
		pool.Spec.Level = v1alpha1.LevelBGP
		pool.Spec.Nodes, err = nodes(bgp)
		missing = append(missing, s.announced(bgp, &pool.Spec.BGP))
	default: // MetalLB gives the address and announces it nowhere. ccmadm announces what it gives.
		pool.Spec.Level, pool.Spec.Interfaces = v1alpha1.LevelL2, everywhere
	}
	if err := errors.Join(append(missing, err)...); err != nil {
		return pool, fmt.Errorf("IPAddressPool/%s: %w", p.Name, err)
	}
	return pool, nil
}

// serve has the fields of serviceAllocation.
func (p ipAddressPool) serve(spec *v1alpha1.AddressPoolSpec) error {
	to := p.Spec.ServiceAllocation
	if to == nil {
		return nil
	}
	spec.Priority = 1
	if to.Priority > 0 {
		spec.Priority = topPriority - to.Priority
	}
	spec.Serve.Namespaces = to.Namespaces
	var errs [2]error
	spec.Serve.NamespaceSelector, errs[0] = one(to.NamespaceSelectors)
	spec.Serve.ServiceSelector, errs[1] = one(to.ServiceSelectors)
	return errors.Join(errs[:]...)
}

// of are the advertisements of a pool.
func of(p ipAddressPool, all []advertisement) []advertisement {
	var list []advertisement
	for _, a := range all {
		names, selectors := a.Spec.IPAddressPools, a.Spec.IPAddressPoolSelectors
		selected := func(s metav1.LabelSelector) bool { return selects(s, p.Labels) }
		if len(names)+len(selectors) == 0 || slices.Contains(names, p.Name) || slices.ContainsFunc(selectors, selected) {
			list = append(list, a)
		}
	}
	return list
}

func selects(s metav1.LabelSelector, of map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(&s)
	return err == nil && selector.Matches(labels.Set(of))
}

// interfaces are all that any of them names, and none if one of them names none.
func interfaces(list []advertisement) []string {
	var all []string
	for _, a := range list {
		if len(a.Spec.Interfaces) == 0 {
			return nil
		}
		all = append(all, a.Spec.Interfaces...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// nodes are all Nodes that any of them names.
func nodes(list []advertisement) (*metav1.LabelSelector, error) {
	var all []metav1.LabelSelector
	for _, a := range list {
		if len(a.Spec.NodeSelectors) == 0 {
			return nil, nil //nolint:nilnil // no selector is all Nodes
		}
		all = append(all, a.Spec.NodeSelectors...)
	}
	return one(all)
}

// one returns a selector for what any of these selects. It can do so where each asks for one value of the same label.
func one(list []metav1.LabelSelector) (*metav1.LabelSelector, error) {
	if len(list) == 0 {
		return nil, nil //nolint:nilnil // no selector is everything
	}
	if len(list) == 1 {
		return &list[0], nil
	}
	in := metav1.LabelSelectorRequirement{Operator: metav1.LabelSelectorOpIn}
	for _, s := range list {
		if len(s.MatchLabels) != 1 || len(s.MatchExpressions) > 0 {
			return nil, fmt.Errorf("no counterpart for %d selectors", len(list))
		}
		for key, value := range s.MatchLabels {
			if in.Key = cmp.Or(in.Key, key); in.Key != key {
				return nil, fmt.Errorf("no counterpart for selectors of labels %s and %s", in.Key, key)
			}
			in.Values = append(in.Values, value)
		}
	}
	slices.Sort(in.Values)
	in.Values = slices.Compact(in.Values)
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{in}}, nil
}

// announced has how BGPAdvertisements announce a pool. ccmadm announces it in one way.
func (s source) announced(list []advertisement, how *v1alpha1.PoolBGP) error {
	aliases := map[string]string{}
	for _, c := range s.communities {
		for _, alias := range c.Spec.Communities {
			aliases[alias.Name] = alias.Value
		}
	}
	var missing []error
	for _, a := range list {
		for _, name := range a.Spec.Communities {
			how.Communities = append(how.Communities, strings.TrimPrefix(cmp.Or(aliases[name], name), "large:"))
		}
		if a.Spec.LocalPref > 0 {
			how.LocalPref = new(a.Spec.LocalPref)
		}
		if len(a.Spec.Peers) > 0 {
			missing = append(missing, fmt.Errorf("BGPAdvertisement/%s: no counterpart for peers", a.Name))
		}
		if a.Spec.AggregationLength%32 != 0 || a.Spec.AggregationLengthV6%128 != 0 {
			missing = append(missing, fmt.Errorf("BGPAdvertisement/%s: no counterpart for aggregationLength", a.Name))
		}
	}
	slices.Sort(how.Communities)
	how.Communities = slices.Compact(how.Communities)
	if len(list) > 1 {
		missing = append(missing, errors.New("no counterpart for several BGPAdvertisements: they are one"))
	}
	return errors.Join(missing...)
}

// peer returns a router and its password.
func (s source) peer(p bgpPeer) (*v1alpha1.BGPPeer, string, error) {
	peer := &v1alpha1.BGPPeer{Spec: v1alpha1.BGPPeerSpec{
		Address: p.Spec.PeerAddress, Port: cmp.Or(p.Spec.PeerPort, 179), ASN: p.Spec.PeerASN, LocalASN: p.Spec.MyASN,
		SourceAddress: p.Spec.SourceAddress, HoldTime: p.Spec.HoldTime,
	}}
	peer.Name = p.Name
	if p.Spec.EBGPMultiHop {
		peer.Spec.MultiHop = 255
	}
	password := cmp.Or(p.Spec.Password, s.passwords[p.Spec.PasswordSecret.Name])
	if password != "" {
		peer.Spec.PasswordKey = p.Name
	}
	var missing []error
	var err error
	peer.Spec.Nodes, err = one(p.Spec.NodeSelectors)
	missing = append(missing, err)
	for _, profile := range s.bfd {
		if profile.Name == p.Spec.BFDProfile {
			profile.into(&peer.Spec.BFD)
		}
	}
	for field, value := range map[string]string{"routerID": p.Spec.RouterID, "vrf": p.Spec.VRF} {
		if value != "" {
			missing = append(missing, fmt.Errorf("no counterpart for %s", field))
		}
	}
	if err := errors.Join(missing...); err != nil {
		return peer, password, fmt.Errorf("BGPPeer/%s: %w", p.Name, err)
	}
	return peer, password, nil
}

func (p bfdProfile) into(bfd *v1alpha1.PeerBFD) {
	bfd.Enabled = new(true)
	if p.Spec.TransmitInterval > 0 {
		bfd.Interval = metav1.Duration{Duration: time.Duration(p.Spec.TransmitInterval) * time.Millisecond}
	}
	bfd.Multiplier = p.Spec.DetectMultiplier
}
