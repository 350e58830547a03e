package lbtest

import (
	"context"

	"github.com/ccmadm/ccmadm/doctor/lbtest/traffic"
)

// check is one property of load balancers.
type check struct {
	name string
	// asks says for people what has to hold.
	asks string
	// disrupts is true for a check that runs with Options.Disrupt only.
	disrupts bool
	// run returns nil where it holds, a failure where it does not, an omission where the cluster cannot have it. Any other error
	// says that it was not possible to find out. Services of the check are removed by its caller.
	run func(context.Context, *probe) error
}

// checks is the suite, in its order. Each makes its own Services.
func checks() []check {
	return []check{
		{
			name: "tcp", run: balances(traffic.TCP),
			asks: "A TCP Service gets an address, which answers from outside and from a pod on each Node; each endpoint gets requests.",
		},
		{
			name: "udp", run: balances(traffic.UDP),
			asks: "A UDP Service gets an address, which answers from outside and from a pod on each Node; each endpoint gets requests.",
		},
		{
			name: "tcp-local", run: keepsSource(traffic.TCP),
			asks: "With externalTrafficPolicy Local a TCP Service answers everywhere, and the endpoint sees the address of the client outside.",
		},
		{
			name: "udp-local", run: keepsSource(traffic.UDP),
			asks: "With externalTrafficPolicy Local a UDP Service answers everywhere, and the endpoint sees the address of the client outside.",
		},
		{
			name: "dual-stack", run: dualStack,
			asks: "In a dual-stack cluster a Service gets an address of each family, and both answer.",
		},
		{
			name: "session-affinity", run: sessionAffinity,
			asks: "With sessionAffinity ClientIP one endpoint answers a client, and without it several do.",
		},
		{
			name: "no-endpoints", run: noEndpoints,
			asks: "A Service whose selector matches no pod does not answer, and answers again once it matches.",
		},
		{
			name: "change-port", run: changePort,
			asks: "After a change of spec.ports the new port answers, and the old one does not.",
		},
		{
			name: "change-type", run: changeType,
			asks: "A Service that becomes ClusterIP gives its address up and does not answer there; as LoadBalancer again it answers.",
		},
		{
			name: "change-policy", run: changePolicy,
			asks: "A Service whose externalTrafficPolicy becomes Local, and Cluster again, keeps its address and answers.",
		},
		{
			name: "shared-address", run: sharedAddress,
			asks: "Two Services, of TCP and of UDP, share one address where the implementation allows it, and both answer.",
		},
		{
			name: "requested-loadbalancerip", run: byLoadBalancerIP,
			asks: "An address in use is given to no other Service; once its Service is deleted, the one that asks by spec.loadBalancerIP gets it.",
		},
		{
			name: "requested-annotation", run: byAnnotation,
			asks: "An address in use is given to no other Service; once its Service is deleted, the one that asks by an annotation gets it.",
		},
		{
			name: "owner-moves", run: ownerMoves, disrupts: true,
			asks: "An address goes on answering while the agent on the Node that announces it restarts; lost requests are counted.",
		},
	}
}

// balances is the ordinary Service.
func balances(protocol string) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		b, err := p.answering(ctx, wanted{protocol: protocol})
		if err != nil {
			return err
		}
		return p.spreads(ctx, b, false)
	}
}

// keepsSource is externalTrafficPolicy Local.
func keepsSource(protocol string) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		b, err := p.answering(ctx, wanted{protocol: protocol, local: true})
		if err != nil {
			return err
		}
		return p.sourceKept(ctx, b)
	}
}

func dualStack(ctx context.Context, p *probe) error {
	svc, err := p.createService(ctx, wanted{dual: true})
	if err != nil {
		return err
	}
	if svc, err = p.getService(ctx, svc.Name); err != nil {
		return err
	}
	if len(svc.Spec.IPFamilies) < 2 {
		return skipf("the cluster has one family, %v", svc.Spec.IPFamilies)
	}
	b, err := p.addressed(ctx, svc.Name, bothFamilies)
	if err != nil {
		return err
	}
	for _, host := range oneOfEach(b.hosts) {
		one := &balancer{b.Service, []string{host}}
		if err := p.reachableBy(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

func sessionAffinity(ctx context.Context, p *probe) error {
	b, err := p.answering(ctx, wanted{affinity: true})
	if err != nil {
		return err
	}
	if err := p.stays(ctx, b); err != nil {
		return err
	}
	if err := p.patch(ctx, b.Name, merge, `{"spec":{"sessionAffinity":"None"}}`); err != nil {
		return err
	}
	return p.spreads(ctx, b, true)
}

func noEndpoints(ctx context.Context, p *probe) error {
	b, err := p.answering(ctx, wanted{})
	if err != nil {
		return err
	}
	if err := p.selects(ctx, b.Name, map[string]string{serverKind: "none"}); err != nil {
		return err
	}
	if err := p.quiet(ctx, b.protocol(), b.target(), "without an endpoint"); err != nil {
		return err
	}
	if err := p.selects(ctx, b.Name, p.serverLabels()); err != nil {
		return err
	}
	return p.reachableAgain(ctx, b)
}

func changePort(ctx context.Context, p *probe) error {
	b, err := p.answering(ctx, wanted{})
	if err != nil {
		return err
	}
	old := b.target()
	if err := p.setPort(ctx, b.Name); err != nil {
		return err
	}
	if err := p.reachableAgain(ctx, b); err != nil {
		return err
	}
	return p.quiet(ctx, b.protocol(), old, "at the former port")
}

func changeType(ctx context.Context, p *probe) error {
	b, err := p.answering(ctx, wanted{})
	if err != nil {
		return err
	}
	if err := p.patch(ctx, b.Name, merge, `{"spec":{"type":"ClusterIP"}}`); err != nil {
		return err
	}
	if err := p.withoutAddress(ctx, b.Name); err != nil {
		return err
	}
	if err := p.quiet(ctx, b.protocol(), b.target(), "as ClusterIP"); err != nil {
		return err
	}
	if err := p.patch(ctx, b.Name, merge, p.asLoadBalancer()); err != nil {
		return err
	}
	return p.reachableAgain(ctx, b)
}

func changePolicy(ctx context.Context, p *probe) error {
	b, err := p.answering(ctx, wanted{})
	if err != nil {
		return err
	}
	before := b.hosts
	for _, policy := range []string{"Local", "Cluster"} {
		if err := p.patch(ctx, b.Name, merge, `{"spec":{"externalTrafficPolicy":"`+policy+`"}}`); err != nil {
			return err
		}
		if err := p.reachableAgain(ctx, b); err != nil {
			return err
		}
		now, err := p.getService(ctx, b.Name)
		if err != nil {
			return err
		}
		if hosts := hostsOf(now); !p.nodes.published(before) && !sameHosts(before, hosts) {
			return failf("with externalTrafficPolicy %s the Service has %v, and had %v", policy, hosts, before)
		}
	}
	return nil
}
