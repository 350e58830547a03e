package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
	"github.com/ccmadm/ccmadm/provider/conformance"
)

// broken is a provider that breaks one rule.
type broken struct {
	rule string
	how  func(*scripted)
}

// Each breaks its own rule and no other, or the name of a failed rule would say little about what is wrong.
func TestCluster_Broken(t *testing.T) {
	t.Parallel()
	var covered []string
	for i, group := range []struct {
		name      string
		providers []broken
		only      func(*scripted) // leaves the roles that the group is about
	}{
		{"metadata", brokenMetadata(), func(s *scripted) { s.loadBalancer, s.routing = false, false }},
		{"lifecycle and at once", append(brokenLifecycle(), brokenAtOnce()...), func(s *scripted) { s.loadBalancer, s.routing = false, false }},
		{"faults", brokenFaults(), func(s *scripted) { s.loadBalancer, s.routing = false, false }},
		{"balancers", brokenBalancers(), func(s *scripted) { s.instances, s.routing = false, false }},
		{"routes", brokenRoutes(), func(s *scripted) { s.instances, s.loadBalancer = false, false }},
	} {
		for _, p := range group.providers {
			covered = append(covered, p.rule)
		}
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()           // most of it is waiting for what a broken provider does not do
			config := plane.Config // no other test has Nodes there now: they are not parallel
			if i > 0 {
				config = ownPlane(t)
			}
			for _, p := range group.providers {
				t.Run(p.rule, func(t *testing.T) { breaksOnly(t, config, p, group.only) })
			}
		})
	}
	for _, rule := range conformance.Rules() {
		if !slices.Contains(covered, rule.Name) {
			t.Errorf("no provider here breaks %s", rule.Name)
		}
	}
}

// ownPlane starts a control plane: all controllers look at all of its Nodes.
func ownPlane(t *testing.T) *rest.Config {
	t.Helper()
	plane, err := manifeststest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	return plane.Config
}

func breaksOnly(t *testing.T, config *rest.Config, p broken, only func(*scripted)) {
	t.Helper()
	o := conformance.Options{Config: config, New: func() (conformance.Cloud, error) {
		s := newScripted()
		only(s)
		p.how(s)
		return s.cloud(), nil
	}}
	// Its own rule waits in vain, the others only as long as this machine is slow.
	own, others := o, o
	own.Patience, own.Only = 5*time.Second, func(r conformance.Rule) bool { return r.Name == p.rule }
	others.Patience, others.Only = time.Minute, func(r conformance.Rule) bool { return r.Name != p.rule }
	if diff := cmp.Diff([]string{p.rule}, append(failed(t, own), failed(t, others)...)); diff != "" {
		t.Errorf("rules that fail, -want +got:\n%s", diff)
	}
}

// failed returns the names of the rules that the provider breaks.
func failed(t *testing.T, o conformance.Options) []string {
	t.Helper()
	var names []string
	for _, result := range conformance.Check(t.Context(), o) {
		var missing conformance.NotOffered
		if result.Err != nil && !errors.As(result.Err, &missing) {
			names = append(names, result.Rule.Name)
			t.Logf("%s: %v", result.Rule.Name, result.Err)
		}
	}
	return names
}

// metadata replaces what is said about a Node. The function gets the good answer.
func metadata(change func(*scripted, *corev1.Node, *cloudprovider.InstanceMetadata,
	error) (*cloudprovider.InstanceMetadata, error),
) func(*scripted) {
	return func(s *scripted) {
		s.metadata = func(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
			good, err := s.InstanceMetadata(ctx, node)
			return change(s, node, good, err)
		}
	}
}

// edit changes good answers only.
func edit(change func(*corev1.Node, *cloudprovider.InstanceMetadata)) func(*scripted) {
	return metadata(func(_ *scripted, node *corev1.Node, m *cloudprovider.InstanceMetadata,
		err error,
	) (*cloudprovider.InstanceMetadata, error) {
		if err == nil {
			change(node, m)
		}
		return m, err
	})
}

func waits(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == cloudproviderapi.TaintExternalCloudProvider
	})
}

func brokenMetadata() []broken {
	var asked atomic.Int32
	nodeIP := func(n *corev1.Node) string { return n.Annotations[cloudproviderapi.AnnotationAlphaProvidedIPAddr] }
	return []broken{
		{"has-cluster-id", func(s *scripted) { s.untagged = true }},
		{"has-a-name", func(s *scripted) { s.nameless = true }},
		{"node-is-initialized", edit(func(n *corev1.Node, m *cloudprovider.InstanceMetadata) {
			if nodeIP(n) == "" {
				m.NodeAddresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: n.Name}}
			}
		})},
		{"unknown-machine-stays-tainted", metadata(func(s *scripted, n *corev1.Node, m *cloudprovider.InstanceMetadata,
			err error,
		) (*cloudprovider.InstanceMetadata, error) {
			if err != nil && s.has("") && len(n.Status.Conditions) > 0 { // it is Ready
				return &cloudprovider.InstanceMetadata{ProviderID: "scripted://" + n.Status.NodeInfo.SystemUUID}, nil
			}
			return m, err
		})},
		{"late-machine-is-initialized", metadata(func(s *scripted, n *corev1.Node, m *cloudprovider.InstanceMetadata,
			err error,
		) (*cloudprovider.InstanceMetadata, error) {
			if err != nil && waits(n) && s.has("") {
				return nil, nil
			}
			return m, err
		})},
		{"provided-node-ip", edit(func(n *corev1.Node, m *cloudprovider.InstanceMetadata) {
			if nodeIP(n) == m.NodeAddresses[0].Address {
				m.NodeAddresses = m.NodeAddresses[1:]
			}
		})},
		{"provided-node-ip-list", edit(func(n *corev1.Node, m *cloudprovider.InstanceMetadata) {
			m.NodeAddresses = m.NodeAddresses[:1] // IPv4 only
		})},
		{"metadata-is-idempotent", edit(func(_ *corev1.Node, m *cloudprovider.InstanceMetadata) {
			m.AdditionalLabels = map[string]string{"example.org/asked": fmt.Sprint(asked.Add(1))}
		})},
		{"metadata-is-not-nil", metadata(func(_ *scripted, n *corev1.Node, m *cloudprovider.InstanceMetadata,
			err error,
		) (*cloudprovider.InstanceMetadata, error) {
			if err != nil && !waits(n) {
				return nil, nil
			}
			return m, err
		})},
		{"provider-id-is-unique", metadata(func(s *scripted, n *corev1.Node, m *cloudprovider.InstanceMetadata,
			err error,
		) (*cloudprovider.InstanceMetadata, error) {
			if err == nil && n.Name == "machine-3" {
				m.ProviderID = s.idOf("machine-2")
			}
			return m, err
		})},
		{"provider-id-stays", edit(func(n *corev1.Node, m *cloudprovider.InstanceMetadata) {
			if n.Spec.ProviderID != "" {
				m.ProviderID += "-moved"
			}
		})},
		{"objects-are-not-written-to", edit(func(n *corev1.Node, _ *cloudprovider.InstanceMetadata) {
			n.Labels["example.org/seen"] = "yes"
		})},
	}
}

// exists replaces the answer whether a machine is there. The function gets the good answer.
func exists(change func(s *scripted, node *corev1.Node, good bool, err error) (bool, error)) func(*scripted) {
	return func(s *scripted) {
		s.exists = func(ctx context.Context, node *corev1.Node) (bool, error) {
			good, err := s.InstanceExists(ctx, node)
			return change(s, node, good, err)
		}
	}
}

func brokenLifecycle() []broken {
	always := func(off bool) func(*scripted) {
		return func(s *scripted) {
			s.shutdown = func(ctx context.Context, node *corev1.Node) (bool, error) {
				_, err := s.InstanceShutdown(ctx, node)
				return off && err == nil, err
			}
		}
	}
	return []broken{
		{"removed-machine-loses-its-node", exists(func(_ *scripted, _ *corev1.Node, good bool, err error) (bool, error) {
			if err == nil && !good {
				err = cloudprovider.InstanceNotFound
			}
			return good, err
		})},
		{"silent-machine-keeps-its-node", func(s *scripted) {
			s.exists = func(ctx context.Context, node *corev1.Node) (bool, error) {
				m, err := s.find(ctx, node)
				if err == nil && m != nil && len(node.Status.Conditions) == 0 {
					return false, nil
				}
				return s.InstanceExists(ctx, node)
			}
		}},
		{"uninitialized-machine-keeps-its-node", func(s *scripted) {
			s.exists = func(ctx context.Context, node *corev1.Node) (bool, error) {
				if node.Spec.ProviderID == "" {
					m, err := s.find(ctx, node)
					return m != nil, err
				}
				return s.InstanceExists(ctx, node)
			}
		}},
		{"foreign-machine-keeps-its-node", exists(func(_ *scripted, n *corev1.Node, good bool, err error) (bool, error) {
			return good && (n.Spec.ProviderID == "" || strings.HasPrefix(n.Spec.ProviderID, "scripted://")), err
		})},
		{"renamed-machine-keeps-its-node", func(s *scripted) {
			s.exists = func(ctx context.Context, node *corev1.Node) (bool, error) {
				good, err := s.InstanceExists(ctx, node)
				if !good || err != nil || s.idOf(node.Name) == node.Spec.ProviderID || !strings.HasPrefix(node.Spec.ProviderID,
					"scripted://") {
					return good, err
				}
				return false, nil // by its name, it is none
			}
		}},
		{"stopped-machine-is-tainted", always(false)},
		{"running-machine-is-not-tainted", always(true)},
	}
}

// brokenAtOnce are providers that no controller with one worker finds: they answer well as long as they are asked about
// one machine at a time.
func brokenAtOnce() []broken {
	const rule = "machines-are-asked-about-at-once"
	return []broken{
		{rule, func(s *scripted) { // keeps in one place what it was asked, and answers for whoever was last
			var last atomic.Pointer[corev1.Node]
			s.shutdown = func(ctx context.Context, node *corev1.Node) (bool, error) {
				last.Store(node)
				time.Sleep(20 * time.Millisecond)
				return s.InstanceShutdown(ctx, last.Load())
			}
		}},
		{rule, func(s *scripted) { // waits for an answer that comes to another
			var busy atomic.Int32
			s.exists = func(ctx context.Context, node *corev1.Node) (bool, error) {
				defer busy.Add(-1)
				if busy.Add(1) > 1 {
					<-ctx.Done()
					return false, ctx.Err()
				}
				time.Sleep(10 * time.Millisecond)
				return s.InstanceExists(ctx, node)
			}
		}},
	}
}

func brokenFaults() []broken {
	all := []broken{
		{"initialized-once-the-cloud-is-back", metadata(func(s *scripted, n *corev1.Node, m *cloudprovider.InstanceMetadata,
			err error,
		) (*cloudprovider.InstanceMetadata, error) {
			if err != nil && waits(n) && !s.has("") {
				return nil, nil
			}
			return m, err
		})},
		{"initialized-once-the-cloud-is-back", metadata(func(s *scripted, n *corev1.Node, m *cloudprovider.InstanceMetadata,
			err error,
		) (*cloudprovider.InstanceMetadata, error) {
			if err != nil && waits(n) && !s.has("") {
				return &cloudprovider.InstanceMetadata{ProviderID: "scripted://guess"}, nil
			}
			return m, err
		})},
		{"fault-is-not-instance-not-found", exists(func(_ *scripted, _ *corev1.Node, good bool, err error) (bool, error) {
			if err != nil {
				err = fmt.Errorf("%w: %w", cloudprovider.InstanceNotFound, err)
			}
			return good, err
		})},
		{"fault-is-not-shutdown", func(s *scripted) {
			s.shutdown = func(ctx context.Context, node *corev1.Node) (bool, error) {
				off, err := s.InstanceShutdown(ctx, node)
				return off || err != nil, nil
			}
		}},
		{"ends-with-its-context", func(s *scripted) {
			s.exists = func(ctx context.Context, node *corev1.Node) (bool, error) {
				return s.InstanceExists(context.WithoutCancel(ctx), node)
			}
		}},
	}
	for _, f := range []conformance.Fault{
		conformance.Forbidden, conformance.WrongProject, conformance.Throttled, conformance.Unavailable,
	} {
		all = append(all, broken{"no-deletion-when-" + string(f), exists(func(s *scripted, _ *corev1.Node, good bool,
			err error,
		) (bool, error) {
			if s.has(f) {
				return false, nil
			}
			return good, err
		})})
	}
	return append(all, broken{"no-deletion-when-slow", func(s *scripted) {
		s.exists = func(ctx context.Context, node *corev1.Node) (bool, error) {
			if s.has(conformance.Slow) {
				return false, nil // gave up, and knows nothing
			}
			return s.InstanceExists(ctx, node)
		}
	}})
}
