package lbtest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
)

// TestCluster_StuckService: a Service that a finalizer keeps does not keep the pods: the namespace is deleted with them, and the run
// says what stays.
func TestCluster_StuckService(t *testing.T) {
	t.Parallel()
	controllers(t)
	w := newWorld(t, 20)
	o := w.options()
	o.Namespace = "lb-test-stuck" // where the world removes no finalizer
	s, err := newSuite(o)
	if err != nil {
		t.Fatal(err)
	}
	s.servicesPatience = 5 * time.Second
	if err := s.createNamespace(t.Context()); err != nil {
		t.Fatal(err)
	}
	services := w.client.CoreV1().Services(o.Namespace)
	svc := s.service(wanted{name: first, protocol: "TCP", port: 80})
	svc.Finalizers, svc.Spec.Type = []string{"example.com/stays"}, "ClusterIP"
	if _, err := services.Create(t.Context(), svc, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	err = s.end(t.Context(), nil)
	var left *finding.Error
	if !errors.As(err, &left) || !strings.Contains(err.Error(), "example.com/stays") || left.Hint == "" {
		t.Errorf("got %v", err)
	}
	found, err := w.client.CoreV1().Namespaces().Get(t.Context(), o.Namespace, metav1.GetOptions{})
	if err != nil || found.DeletionTimestamp == nil {
		t.Errorf("the namespace is not deleted: %v", err)
	}
	if _, err := services.Patch(t.Context(), first, merge, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
}

// TestCluster_JustBegun: a namespace whose run has not made its Lease yet is that of a run under way.
func TestCluster_JustBegun(t *testing.T) {
	t.Parallel()
	controllers(t)
	w := newWorld(t, 21)
	begun, err := newSuite(w.options())
	if err != nil {
		t.Fatal(err)
	}
	if err := begun.createNamespace(t.Context()); err != nil {
		t.Fatal(err)
	}
	leases := w.client.CoordinationV1().Leases(w.namespace)
	lease, err := leases.Get(t.Context(), leaseName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := leases.Delete(t.Context(), leaseName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	next, err := newSuite(w.options())
	if err != nil {
		t.Fatal(err)
	}
	next.silence = 6 * time.Second
	time.AfterFunc(time.Second, func() {
		lease.ResourceVersion, lease.UID = "", ""
		if _, err := leases.Create(context.WithoutCancel(t.Context()), lease, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	})
	var refused *finding.Error
	if err := next.removeLeftovers(t.Context()); !errors.As(err, &refused) || refused.Code != finding.ExitRefused {
		t.Errorf("got %v", err)
	}
	if err := begun.remove(t.Context()); err != nil {
		t.Error(err)
	}
	w.mustBeGone(t)
}

// TestCluster_Taken: a run whose namespace another one has made new ends, and touches nothing in it.
func TestCluster_Taken(t *testing.T) {
	t.Parallel()
	controllers(t)
	w := newWorld(t, 22)
	s, err := newSuite(w.options())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.createNamespace(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, lost := context.WithCancelCause(t.Context())
	ended := make(chan struct{})
	alive, stop := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		s.renew(alive, lost)
	}()
	time.Sleep(beat / 2)
	if ctx.Err() != nil {
		t.Errorf("it ends by itself: %v", context.Cause(ctx))
	}
	leases := w.client.CoordinationV1().Leases(w.namespace)
	lease, err := leases.Get(t.Context(), leaseName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := leases.Delete(t.Context(), leaseName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	lease.ResourceVersion, lease.UID, lease.Spec.RenewTime = "", "", nil
	if _, err := leases.Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
	}
	stop()
	<-ended
	if got := stopped(ctx, nil); !errors.Is(got, errTaken) {
		t.Errorf("got %v", got)
	}
	if lease, err = leases.Get(t.Context(), leaseName, metav1.GetOptions{}); err != nil || lease.Spec.RenewTime != nil {
		t.Errorf("the other's Lease was renewed: %+v, %v", lease, err)
	}
	if err := s.remove(t.Context()); err != nil {
		t.Error(err)
	}
	w.mustBeGone(t)
}
