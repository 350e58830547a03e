package balancer

import (
	"errors"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/evaluation"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// newIdle is a Balancer without an API server, whose caches are known and have what tests add. It makes no passes.
func newIdle(t *testing.T) *Balancer {
	t.Helper()
	b := newOffline(t)
	for _, w := range append(b.caches.own(), b.caches.nodes, b.caches.services) {
		w.absent.Store(true)
	}
	return b
}

// newOffline is a Balancer without an API server, whose caches are empty.
func newOffline(t *testing.T) *Balancer {
	t.Helper()
	config := &rest.Config{Host: "127.0.0.1:1"} // nothing is sent
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	clients, err := objects.New(config)
	if err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(client, 0).Core().V1()
	b, err := New(Settings{
		Client: client, Objects: clients, Nodes: factory.Nodes().Informer(), Services: factory.Services().Informer(), Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// deletedWorld is an ipamWorld with a Balancer that upstream asks about Service web, which is being deleted.
type deletedWorld struct {
	*ipamWorld
	balancer *Balancer
	web      *corev1.Service
}

// newDeletedWorld has a Service that waits for the IPAM, which answers 503 from now on, and is then deleted.
func newDeletedWorld(t *testing.T, p *played) *deletedWorld {
	t.Helper()
	w := newIPAMWorld(t, p.pool("192.0.2.0/28"))
	p.now(func() { p.status = http.StatusServiceUnavailable })
	web := w.service("web")
	w.fails(web, "IPAMPending", "answers 503")
	web.DeletionTimestamp = &metav1.Time{Time: w.now}
	b := newIdle(t)
	b.ipam = w.keeper
	if err := b.caches.services.GetStore().Add(web); err != nil {
		t.Fatal(err)
	}
	return &deletedWorld{w, b, web}
}

// sync is what upstream's service controller does with a Service that is being deleted. It returns whether the finalizer goes.
func (w *deletedWorld) sync() (bool, error) {
	w.Helper()
	w.passed()
	_, exists, err := w.balancer.GetLoadBalancer(w.Context(), "", w.web)
	if err != nil {
		w.Fatal(err)
	}
	if !exists {
		return true, nil
	}
	err = w.balancer.EnsureLoadBalancerDeleted(w.Context(), "", w.web)
	return err == nil, err
}

// passed makes a pass, and tells the Balancer of it.
func (w *deletedWorld) passed() {
	w.Helper()
	p := w.pass(-1)
	w.balancer.mu.Lock()
	defer w.balancer.mu.Unlock()
	w.balancer.cleared = clearedBy(w.snapshotIPAM(), p.Plan)
}

// A Service that is deleted while the IPAM is away keeps its finalizer until the IPAM has released what it may have.
func TestIPAM_DeletedWhileAway(t *testing.T) {
	p := newPlayed(t, "192.0.2.7")
	w := newDeletedWorld(t, p)
	p.now(func() { p.has["lan/"+string(w.web.UID)+"/ipv4"] = "192.0.2.7" }) // its answer was lost
	for range 2 {
		if gone, err := w.sync(); gone || err == nil {
			t.Fatalf("while the IPAM is away the finalizer goes: %t, %v", gone, err)
		}
	}
	began := time.Now()
	if _, err := w.sync(); time.Since(began) >= patience {
		t.Errorf("upstream's only worker waits %s: %v", time.Since(began), err)
	}
	p.now(func() { p.status = 0 })
	for began := time.Now(); ; {
		gone, err := w.sync()
		if gone {
			break
		} else if time.Since(began) > time.Minute {
			t.Fatal(err)
		}
	}
	if p.state() != "[]" {
		t.Errorf("the IPAM still has %s", p.state())
	}
}

// Upstream's only worker does not wait for an IPAM.
func TestIPAM_EnsureDoesNotWait(t *testing.T) {
	b, w := newIdle(t), newWorld()
	web := w.add("web")
	b.statuses = map[types.NamespacedName]*evaluation.Status{
		allocator.NameOf(web): {Service: web, After: web, Problem: finding.IPAMPending.Errorf("the IPAM %w", allocator.ErrUnanswered)},
	}
	began := time.Now()
	_, err := b.EnsureLoadBalancer(t.Context(), "", web, nil)
	if took := time.Since(began); !errors.Is(err, cloudprovider.ImplementedElsewhere) || took >= patience {
		t.Errorf("after %s: %v", took, err)
	}
}
