package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/ccmadm/ccmadm/provider/conformance"
)

// scripted is a provider of every role over a cloud in memory. It keeps all rules; a test that wants a broken one
// replaces an answer.
type scripted struct {
	cloudprovider.Interface // the roles it has not

	mu        sync.Mutex
	machines  map[string]*instance // by UUID
	fault     conformance.Fault
	healed    chan struct{}
	addresses int
	balancers map[string]*corev1.LoadBalancerStatus // by UID of the Service
	routes    map[string]*cloudprovider.Route       // by cluster, node and CIDR

	instances, loadBalancer, routing bool // roles that it has
	nameless                         bool // has no name
	untagged                         bool // has no cluster id

	exists   func(context.Context, *corev1.Node) (bool, error)
	shutdown func(context.Context, *corev1.Node) (bool, error)
	metadata func(context.Context, *corev1.Node) (*cloudprovider.InstanceMetadata, error)
	get      func(context.Context, *corev1.Service) (*corev1.LoadBalancerStatus, bool, error)
	ensure   func(context.Context, *corev1.Service, []*corev1.Node) (*corev1.LoadBalancerStatus, error)
	update   func(context.Context, *corev1.Service, []*corev1.Node) error
	remove   func(context.Context, *corev1.Service) error
	list     func(ctx context.Context, cluster string) ([]*cloudprovider.Route, error)
	create   func(ctx context.Context, cluster string, route *cloudprovider.Route) error
	unroute  func(ctx context.Context, cluster string, route *cloudprovider.Route) error
}

type instance struct {
	conformance.Machine
	off bool
}

func newScripted() *scripted {
	s := &scripted{
		machines: map[string]*instance{}, healed: make(chan struct{}),
		balancers: map[string]*corev1.LoadBalancerStatus{}, routes: map[string]*cloudprovider.Route{},
		instances: true, loadBalancer: true, routing: true,
	}
	s.exists, s.shutdown, s.metadata = s.InstanceExists, s.InstanceShutdown, s.InstanceMetadata
	s.get, s.ensure, s.update, s.remove = s.getBalancer, s.ensureBalancer, s.updateBalancer, s.removeBalancer
	s.list, s.create, s.unroute = s.listRoutes, s.createRoute, s.deleteRoute
	return s
}

// cloud returns the provider with all hooks.
func (s *scripted) cloud() conformance.Cloud {
	c := conformance.Cloud{
		Provider: s,
		Add: func(m conformance.Machine) error {
			return s.locked(func() { s.machines[m.UUID] = &instance{Machine: m} })
		},
		Remove: func(m conformance.Machine) error { return s.locked(func() { delete(s.machines, m.UUID) }) },
		Rename: func(m conformance.Machine, name string) error {
			return s.locked(func() { s.machines[m.UUID].Name = name })
		},
		Stop:   func(m conformance.Machine) error { return s.locked(func() { s.machines[m.UUID].off = true }) },
		Start:  func(m conformance.Machine) error { return s.locked(func() { s.machines[m.UUID].off = false }) },
		Faults: map[conformance.Fault]func(bool){},
	}
	for _, f := range []conformance.Fault{
		conformance.Forbidden, conformance.WrongProject, conformance.Throttled, conformance.Unavailable, conformance.Slow,
	} {
		c.Faults[f] = func(on bool) { _ = s.locked(func() { s.set(f, on) }) }
	}
	return c
}

func (s *scripted) locked(change func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	return nil
}

func (s *scripted) set(f conformance.Fault, on bool) {
	if on {
		s.fault, s.healed = f, make(chan struct{})
		return
	}
	if s.fault != "" {
		close(s.healed)
	}
	s.fault = ""
}

// has says whether the fault is on.
func (s *scripted) has(f conformance.Fault) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault == f
}

// call is what every request to the cloud begins with.
func (s *scripted) call(ctx context.Context) error {
	s.mu.Lock()
	fault, healed := s.fault, s.healed
	s.mu.Unlock()
	switch fault {
	case "":
		return nil
	case conformance.Slow:
		select {
		case <-healed:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.New(string(fault))
}

// find looks for the machine of a Node by its provider ID, and by name where there is none.
func (s *scripted) find(ctx context.Context, node *corev1.Node) (*instance, error) {
	if err := s.call(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for uuid, m := range s.machines {
		if node.Spec.ProviderID == "scripted://"+uuid || (node.Spec.ProviderID == "" && node.Name == m.Name) {
			found := *m
			return &found, nil
		}
	}
	return nil, nil
}

// idOf returns the provider ID of the machine with that name.
func (s *scripted) idOf(name string) (id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uuid, m := range s.machines {
		if m.Name == name {
			id = "scripted://" + uuid
		}
	}
	return id
}

func (s *scripted) HasClusterID() bool { return !s.untagged }

func (s *scripted) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	if !strings.HasPrefix(node.Spec.ProviderID, "scripted://") { // new, or somebody else's
		return true, nil
	}
	m, err := s.find(ctx, node)
	return m != nil, err
}

func (s *scripted) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	m, err := s.find(ctx, node)
	return m != nil && m.off, err
}

func (s *scripted) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	m, err := s.find(ctx, node)
	if err == nil && m == nil {
		err = fmt.Errorf("no machine for Node/%s", node.Name)
	}
	if err != nil {
		return nil, err
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID:    "scripted://" + m.UUID,
		NodeAddresses: slices.Clone(m.Addresses), // the node controller appends a host name
		Zone:          "a",
	}, nil
}

func (s *scripted) getBalancer(ctx context.Context, service *corev1.Service) (*corev1.LoadBalancerStatus, bool, error) {
	if err := s.call(ctx); err != nil {
		return nil, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	status, ok := s.balancers[string(service.UID)]
	return status.DeepCopy(), ok, nil
}

func (s *scripted) ensureBalancer(ctx context.Context, service *corev1.Service,
	_ []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	if err := s.call(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.balancers[string(service.UID)] == nil {
		s.addresses++
		s.balancers[string(service.UID)] = &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: fmt.Sprintf("198.19.0.%d", s.addresses)}}}
	}
	return s.balancers[string(service.UID)].DeepCopy(), nil
}

func (s *scripted) updateBalancer(ctx context.Context, _ *corev1.Service, _ []*corev1.Node) error {
	return s.call(ctx)
}

func (s *scripted) removeBalancer(ctx context.Context, service *corev1.Service) error {
	if err := s.call(ctx); err != nil {
		return err
	}
	return s.locked(func() { delete(s.balancers, string(service.UID)) })
}

func key(cluster string, route *cloudprovider.Route) string {
	return strings.Join([]string{cluster, string(route.TargetNode), route.DestinationCIDR}, " ")
}

func (s *scripted) listRoutes(ctx context.Context, cluster string) ([]*cloudprovider.Route, error) {
	if err := s.call(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var routes []*cloudprovider.Route
	for k, route := range s.routes {
		if strings.HasPrefix(k, cluster+" ") {
			found := *route
			routes = append(routes, &found)
		}
	}
	return routes, nil
}

func (s *scripted) createRoute(ctx context.Context, cluster string, route *cloudprovider.Route) error {
	if err := s.call(ctx); err != nil {
		return err
	}
	created := *route
	created.EnableNodeAddresses = true
	return s.locked(func() { s.routes[key(cluster, route)] = &created })
}

func (s *scripted) deleteRoute(ctx context.Context, cluster string, route *cloudprovider.Route) error {
	if err := s.call(ctx); err != nil {
		return err
	}
	return s.locked(func() { delete(s.routes, key(cluster, route)) })
}
