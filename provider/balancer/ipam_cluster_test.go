package balancer

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// A Service has its address from an IPAM, with the token of the Secret. Without an answer its deletion waits, and an address that a
// Service has stays.
func TestCluster_IPAM(t *testing.T) {
	p := newPlayed(t, "192.0.2.57", "192.0.2.58")
	c := newCluster(t, p.pool("192.0.2.50-192.0.2.60"))
	c.end()
	system, err := c.client.CoreV1().Namespaces().Get(t.Context(), v1alpha1.Namespace, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.cluster = string(system.UID)
	secrets := c.client.CoreV1().Secrets(v1alpha1.Namespace)
	_, err = secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.IPAMSecretName}, Data: map[string][]byte{"k": []byte("good\n")},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = secrets.Delete(context.WithoutCancel(t.Context()), v1alpha1.IPAMSecretName, metav1.DeleteOptions{})
	})
	c.lead()
	finalized := func(s *corev1.Service) { s.Finalizers = []string{v1alpha1.LoadBalancerFinalizer} }
	web := c.create("web", finalized)
	c.within(time.Minute, "web", func(s *corev1.Service) bool {
		return reasonIs(allocator.AnnouncedReason)(s) && hasAddress("192.0.2.57")(s) && len(allocator.AskedOf(s)) == 0
	})
	if got, want := c.claimed("192.0.2.57").Lease.String(), "lan/"+string(web.UID); got != want {
		t.Errorf("the claim has lease %q, want %q", got, want)
	}
	if told := c.told(); strings.Contains(told, "Warning") || !strings.Contains(told, "Normal IPAMPending") {
		t.Errorf("Events:\n%s", told)
	}

	p.now(func() { p.status = http.StatusServiceUnavailable })
	c.create("waits", finalized)
	waits := c.within(time.Minute, "waits", func(s *corev1.Service) bool {
		return reasonIs("IPAMPending")(s) && strings.Contains(allocator.Condition(s).Message, "answers 503") && len(allocator.AskedOf(s)) == 1
	})
	if _, err := c.leader.EnsureLoadBalancer(t.Context(), "", waits, nil); !errors.Is(err, cloudprovider.ImplementedElsewhere) {
		t.Errorf("EnsureLoadBalancer: %v", err)
	}
	c.patch("waits", `{"spec": {"type": "ClusterIP"}}`)
	waits = c.within(time.Minute, "waits", func(s *corev1.Service) bool { return allocator.Condition(s) == nil })
	err = c.leader.EnsureLoadBalancerDeleted(t.Context(), "", waits)
	if want := "the IPAM of AddressPool/lan answers 503"; err == nil || !strings.Contains(err.Error(), want) || len(allocator.AskedOf(waits)) != 1 {
		t.Errorf("EnsureLoadBalancerDeleted: %v, want %s; asked: %v", err, want, allocator.AskedOf(waits))
	}
	pools := func(want metav1.ConditionStatus) {
		t.Helper()
		for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
			pool, err := c.objects.AddressPools.Get(t.Context(), "lan", metav1.GetOptions{})
			if err == nil && meta.IsStatusConditionPresentAndEqual(pool.Status.Conditions, ipamCondition, want) {
				return
			} else if time.Since(began) > time.Minute {
				t.Fatalf("the pool's conditions are %v, %v", pool.Status.Conditions, err)
			}
		}
	}
	pools(metav1.ConditionFalse)
	p.now(func() { p.status, p.has["lan/"+string(web.UID)+"/ipv4"] = 0, "192.0.2.59" })
	for began := time.Now(); ; {
		if err = c.leader.EnsureLoadBalancerDeleted(t.Context(), "", waits); err == nil || time.Since(began) > time.Minute {
			break
		}
	}
	if err != nil {
		t.Errorf("EnsureLoadBalancerDeleted, once the IPAM answers: %v", err)
	}
	c.within(time.Minute, "waits", func(s *corev1.Service) bool { return len(allocator.AskedOf(s)) == 0 })

	c.told()
	c.lead() // which renews at once
	differs := "answers 192.0.2.59, and the Service keeps 192.0.2.57"
	c.within(time.Minute, "web", func(s *corev1.Service) bool {
		return strings.Contains(allocator.Condition(s).Message, differs) && hasAddress("192.0.2.57")(s) && reasonIs(allocator.AnnouncedReason)(s)
	})
	if told := c.told(); strings.Count(told, "Warning IPAMDiffers") != 1 {
		t.Errorf("Events:\n%s", told)
	}
	pools(metav1.ConditionTrue)

	c.patch("web", `{"metadata": {"finalizers": null}}`)
	if err := c.client.CoreV1().Services("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); p.state() != "[]" || c.claimed("192.0.2.57") != nil; time.Sleep(50 * time.Millisecond) {
		if claim := c.claimed("192.0.2.57"); claim != nil && !claim.Live() {
			c.ahead.Store(int64(2 * time.Minute))
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("the IPAM has %s, and there is claim %+v", p.state(), c.claimed("192.0.2.57"))
		}
	}
}
