package lbtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/doctor/lbtest/traffic"
)

const merge = types.MergePatchType

// reachableAgain is reachable for what a Service has become, at the address that it has now.
func (p *probe) reachableAgain(ctx context.Context, b *balancer) error {
	now, err := p.addressed(ctx, b.Name, func(*corev1.Service) bool { return true })
	if err != nil {
		return err
	}
	*b = *now
	return p.reachable(ctx, b)
}

// reachableBy is reachable for one of several addresses. A client outside without IPv6 does not ask one of that family.
func (p *probe) reachableBy(ctx context.Context, b *balancer) error {
	blind := isIPv6(b.hosts[0]) && !hasIPv6()
	if blind && p.outside != nil {
		p.note("outside: this machine has no IPv6 address, and did not ask %s", b.hosts[0])
	}
	return p.each(ctx, func(ctx context.Context, c asking) error {
		if c == p.outside && blind {
			return nil
		}
		_, err := p.answers(ctx, c, b.protocol(), b.target())
		return err
	})
}

// spreads waits until every server has answered: some client, or each.
func (p *probe) spreads(ctx context.Context, b *balancer, each bool) error {
	var mu sync.Mutex
	all, of := map[string]int{}, map[string]map[string]int{}
	for started := time.Now(); ; {
		err := p.each(ctx, func(ctx context.Context, c asking) error {
			o, err := p.answers(ctx, c, b.protocol(), b.target())
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if of[c.name()] == nil {
				of[c.name()] = map[string]int{}
			}
			maps.Copy(of[c.name()], o.Servers)
			maps.Copy(all, o.Servers)
			return nil
		})
		if err != nil {
			return err
		}
		var narrow []string
		for client, servers := range of {
			if each && len(servers) < len(p.servers) {
				narrow = append(narrow, client)
			}
		}
		switch late := time.Since(started) > p.Wait; {
		case len(all) == len(p.servers) && len(narrow) == 0:
			return nil
		case late && len(all) < len(p.servers):
			return failf("of %d endpoints only %v answer, after %s", len(p.servers), slices.Sorted(maps.Keys(all)), p.Wait)
		case late:
			slices.Sort(narrow)
			return failf("one endpoint alone answers after %s: %s", p.Wait, strings.Join(narrow, ", "))
		}
	}
}

// stays is the error of a client that several servers answer.
func (p *probe) stays(ctx context.Context, b *balancer) error {
	return p.each(ctx, func(ctx context.Context, c asking) error {
		o, err := p.answers(ctx, c, b.protocol(), b.target())
		if err != nil {
			return err
		}
		if len(o.Servers) > 1 {
			return failf("%s: %d endpoints answer %d requests of one client; each Node has its own affinity, and a router that spreads "+
				"connections over Nodes by ports breaks it", c.name(), len(o.Servers), o.Answered)
		}
		return nil
	})
}

// sourceKept asks from outside, and leaves it where this machine is a Node: its own packets pass no load balancer.
func (p *probe) sourceKept(ctx context.Context, b *balancer) error {
	if p.outside == nil {
		p.note("the client's source address was not checked: --outside=false")
		return nil
	}
	if p.report.Machine != "" {
		p.note("the client's source address was not checked: this machine is Node %s", p.report.Machine)
		return nil
	}
	o, err := p.answers(ctx, p.outside, b.protocol(), b.target())
	if err != nil {
		return err
	}
	return p.nodes.judgeSource(o.Sources, p.OutsideAddress)
}

// replace changes one field of a Service by a JSON patch: a merge patch would leave keys of a map, and drop NodePorts of a list.
func (p *probe) replace(ctx context.Context, name, path string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode a patch: %w", err)
	}
	return p.patch(ctx, name, types.JSONPatchType, fmt.Sprintf(`[{"op":"replace","path":%q,"value":%s}]`, path, data))
}

func (p *probe) selects(ctx context.Context, name string, selector map[string]string) error {
	return p.replace(ctx, name, "/spec/selector", selector)
}

// setPort gives a Service the next unused port.
func (p *probe) setPort(ctx context.Context, name string) error {
	port := p.port
	p.port++
	return p.replace(ctx, name, "/spec/ports/0/port", port)
}

// asLoadBalancer is the patch that makes a Service of type ClusterIP one of type LoadBalancer.
func (p *probe) asLoadBalancer() string {
	if p.Class == "" {
		return `{"spec":{"type":"LoadBalancer"}}`
	}
	return fmt.Sprintf(`{"spec":{"type":"LoadBalancer","loadBalancerClass":%q}}`, p.Class)
}

// withoutAddress waits until the status of a Service has no address.
func (p *probe) withoutAddress(ctx context.Context, name string) error {
	for started := time.Now(); ; {
		svc, err := p.getService(ctx, name)
		if err != nil {
			return err
		}
		hosts := hostsOf(svc)
		if len(hosts) == 0 {
			return nil
		}
		if time.Since(started) > p.Wait {
			return failf("the status of Service %s has %v after %s, as ClusterIP", name, hosts, p.Wait)
		}
		if err := pause(ctx, often); err != nil {
			return err
		}
	}
}

func bothFamilies(svc *corev1.Service) bool {
	hosts := hostsOf(svc)
	return len(oneOfEach(hosts)) > 1 || slices.ContainsFunc(hosts, func(host string) bool { return !isIP(host) })
}

// oneOfEach is the first address of each family.
func oneOfEach(hosts []string) (list []string) {
	for _, six := range []bool{false, true} {
		if i := slices.IndexFunc(hosts, func(host string) bool { return isIPv6(host) == six }); i >= 0 {
			list = append(list, hosts[i])
		}
	}
	return list
}

func sameHosts(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

// sharedAddress has Services of both protocols at one address.
func sharedAddress(ctx context.Context, p *probe) error {
	b, err := p.balanced(ctx, wanted{})
	if err != nil {
		return err
	}
	w := wanted{name: second, protocol: traffic.UDP}
	if !p.nodes.published(b.hosts) { // those of Nodes are shared without a word
		if p.shares() == "" {
			return skipf("no annotation is known by which this implementation shares addresses: --share-annotation names one")
		}
		key := map[string]any{"metadata": map[string]any{"annotations": map[string]string{p.shares(): p.id}}}
		data, err := json.Marshal(key)
		if err != nil {
			return fmt.Errorf("encode a patch: %w", err)
		}
		if err := p.patch(ctx, b.Name, merge, string(data)); err != nil {
			return err
		}
		w.annotations, w.address = map[string]string{p.shares(): p.id}, b.hosts[0]
	}
	other, err := p.balanced(ctx, w)
	if err != nil {
		return err
	}
	if !sameHosts(b.hosts, other.hosts) && !slices.Contains(other.hosts, b.hosts[0]) {
		return failf("the second Service has %v, and is to share %s", other.hosts, b.hosts[0])
	}
	return errors.Join(p.reachable(ctx, b), p.reachable(ctx, other))
}

// takenFor is how long a Service may have the chance to take an address that another one has.
const takenFor = 3 * time.Second

func byLoadBalancerIP(ctx context.Context, p *probe) error {
	return requested(ctx, p, func(address string) (wanted, error) { return wanted{address: address}, nil })
}

func byAnnotation(ctx context.Context, p *probe) error {
	return requested(ctx, p, func(address string) (wanted, error) {
		if p.asks() == "" {
			return wanted{}, skipf("no annotation is known by which this implementation is asked for an address: --address-annotation names one")
		}
		return wanted{annotations: map[string]string{p.asks(): address}}, nil
	})
}

// requested has a second Service ask for the address of the first one, which is deleted then.
func requested(ctx context.Context, p *probe, ask func(address string) (wanted, error)) error {
	b, err := p.balanced(ctx, wanted{})
	if err != nil {
		return err
	}
	address := b.hosts[0]
	switch {
	case p.nodes.published(b.hosts):
		return skipf("the addresses of Services are those of Nodes")
	case !isIP(address):
		return skipf("the address of a Service is the host name %s", address)
	}
	w, err := ask(address)
	if err != nil {
		return err
	}
	w.name, w.port = second, b.Spec.Ports[0].Port // with the same port the two cannot share
	if _, err := p.createService(ctx, w); err != nil {
		return err
	}
	if err := pause(ctx, takenFor); err != nil {
		return err
	}
	other, err := p.getService(ctx, second)
	if err != nil {
		return err
	}
	if hosts := hostsOf(other); slices.Contains(hosts, address) {
		return failf("both Services have %s, with the same port", address)
	}
	if err := p.removeService(ctx, first); err != nil {
		return err
	}
	now, err := p.addressed(ctx, second, func(svc *corev1.Service) bool { return slices.Contains(hostsOf(svc), address) })
	if errors.As(err, new(failure)) && !p.recognized() {
		return skipf("%v: this implementation may not know such requests", err)
	}
	if err != nil {
		return fmt.Errorf("%s was given back and asked for: %w", address, err)
	}
	return p.reachable(ctx, now)
}
