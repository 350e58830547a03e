package conformance_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider"
	"github.com/ccmadm/ccmadm/provider/conformance"
	"github.com/ccmadm/ccmadm/provider/routes"
)

// Upstream's route controller is served from the reports of agents, which here have no kernel to ask: they report what
// they should have set.
func TestCluster_OnPremWithRoutes(t *testing.T) {
	t.Parallel()
	config := ownPlane(t)
	_, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{Paths: []string{"../../manifests/crds"}, MaxTime: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	agents := startFakeAgents(t, config)
	results := conformance.Check(t.Context(), conformance.Options{
		Config: config,
		Only:   func(r conformance.Rule) bool { return strings.HasPrefix(r.Name, "route") },
		New: func() (conformance.Cloud, error) {
			agents.silence(false)
			cloud, err := provider.New(nil)
			if err != nil {
				return conformance.Cloud{}, err
			}
			cloud.(*provider.Cloud).ServeRoutes()
			return conformance.Cloud{
				Provider: cloud,
				Faults:   map[conformance.Fault]func(bool){conformance.Unavailable: agents.silence},
			}, nil
		},
	})
	if len(results) != 6 {
		t.Errorf("got %d rules about routes, want 6", len(results))
	}
	for _, result := range results {
		if result.Err != nil { // NotOffered included: nothing of it is left out
			t.Errorf("%s: %v", result.Rule.Name, result.Err)
		}
	}
}

// fakeAgents write the reports of all Nodes there are.
type fakeAgents struct {
	mu     sync.Mutex
	silent bool
}

// silence lets the reports be two minutes old.
func (f *fakeAgents) silence(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.silent = on
}

func startFakeAgents(t *testing.T, config *rest.Config) *fakeAgents {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeAgents{}
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	running.Go(func() {
		for t.Context().Err() == nil { // it ends before the clean-ups
			list, err := nodes.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
			if err == nil {
				err = f.report(t.Context(), c, list.Items)
			}
			if err != nil && t.Context().Err() == nil {
				t.Log(err)
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
	return f
}

func (f *fakeAgents) report(ctx context.Context, c client.Client, list []corev1.Node) error {
	var nodes []*corev1.Node
	for i := range list {
		nodes = append(nodes, &list[i])
	}
	f.mu.Lock()
	renewed := metav1.NowMicro()
	if f.silent {
		renewed = metav1.NewMicroTime(renewed.Add(-2 * time.Minute))
	}
	f.mu.Unlock()
	for _, node := range nodes {
		agent := &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
		if err := c.Get(ctx, client.ObjectKeyFromObject(agent), agent); client.IgnoreNotFound(err) != nil {
			return err
		} else if err != nil {
			if err := c.Create(ctx, agent); err != nil {
				return err
			}
		}
		agent.Status = v1alpha1.NodeAgentStatus{RenewTime: renewed}
		intents, problems := routes.Intents(node.Name, nodes, nil)
		said := &v1alpha1.NodeRoutes{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
		err := c.Get(ctx, client.ObjectKeyFromObject(said), said)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		said.Routes, said.Problems = nil, problems
		for _, intent := range intents {
			route := v1alpha1.AgentRoute{Destination: intent.Destination.String(), Node: intent.Node}
			if intent.Via.IsValid() {
				route.Via = intent.Via.String()
			}
			said.Routes = append(said.Routes, route)
		}
		write := func() error { return c.Update(ctx, said) }
		if err != nil {
			write = func() error { return c.Create(ctx, said) }
		}
		if err := errors.Join(c.Status().Update(ctx, agent), write()); err != nil {
			return err
		}
	}
	return nil
}
