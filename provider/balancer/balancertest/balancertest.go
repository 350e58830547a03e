// Package balancertest runs the load balancers of a cloud-controller-manager, and the agent of a Node, against a real API server, for tests
// of commands.
//
// Start at [New]. Reads and writes: objects of that API server.
package balancertest

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// Agent is the Node whose agent announces what is claimed.
const Agent = "n1"

// announceEvery is how often it looks.
const announceEvery = 50 * time.Millisecond

// Cluster is an API server with the definitions of ccmadm.
type Cluster struct {
	*testing.T
	Config  *rest.Config
	Client  *kubernetes.Clientset
	Objects *objects.Client
	// Paused: the agent announces nothing.
	Paused atomic.Bool
	end    func()
}

// New installs the definitions of this folder. Nothing runs before [Cluster.Lead].
func New(t *testing.T, server *rest.Config, definitions string) *Cluster {
	t.Helper()
	config := rest.CopyConfig(server)
	config.QPS = -1
	if _, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{Paths: []string{definitions}, MaxTime: time.Minute}); err != nil {
		t.Fatal(err)
	}
	clients, err := objects.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return &Cluster{T: t, Config: config, Client: kubernetes.NewForConfigOrDie(config), Objects: clients, end: func() {}}
}

// Lead starts a manager and the agent. They end with the test, if not before.
func (c *Cluster) Lead() {
	c.Helper()
	c.End()
	factory := informers.NewSharedInformerFactory(c.Client, 0)
	leader, err := balancer.New(balancer.Settings{
		Client: c.Client, Objects: c.Objects, Recorder: record.NewFakeRecorder(1000), Now: time.Now,
		Nodes: factory.Core().V1().Nodes().Informer(), Services: factory.Core().V1().Services().Informer(),
	})
	if err != nil {
		c.Fatal(err)
	}
	ctx, cancel := context.WithCancel(c.Context())
	var running sync.WaitGroup
	factory.Start(ctx.Done())
	running.Go(func() { leader.Run(ctx) })
	running.Go(func() { c.Announce(ctx) })
	c.end = func() { cancel(); running.Wait() }
	c.Cleanup(c.End)
}

// End ends both.
func (c *Cluster) End() { c.end() }

// Announce is the agent alone, for a manager that runs elsewhere, until the context ends.
func (c *Cluster) Announce(ctx context.Context) {
	agents := c.Objects.NodeAgents
	_, _ = agents.Create(ctx, &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: Agent}}, metav1.CreateOptions{})
	for ; ctx.Err() == nil; time.Sleep(announceEvery) {
		claims, err := c.Client.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		announcements := []v1alpha1.Announcement{}
		for i := range claims.Items {
			if claim, ours := allocator.ParseClaim(&claims.Items[i]); ours && claim.Live() && !c.Paused.Load() {
				announcements = append(announcements, v1alpha1.Announcement{Address: claims.Items[i].Name, Level: claim.Level})
			}
		}
		patch, _ := json.Marshal(map[string]any{"status": map[string]any{
			"renewTime": metav1.NowMicro(), "announced": len(announcements), "routed": 0, "announcements": announcements,
		}})
		_, _ = agents.Patch(ctx, Agent, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	}
}

// DeleteService deletes one without waiting for a manager.
func (c *Cluster) DeleteService(namespace, name string) {
	ctx, services := context.WithoutCancel(c.Context()), c.Client.CoreV1().Services(namespace)
	_, _ = services.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	_ = services.Delete(ctx, name, metav1.DeleteOptions{})
}
