package balancer

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests/manifeststest"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// The agent reports another prefix, and the Service follows: it has an address all the time. A leader that begins changes nothing.
func TestCluster_Follow(t *testing.T) {
	shared := plane
	own, err := manifeststest.Start("--service-cluster-ip-range=10.0.0.0/24,fd00:10::/112")
	if err != nil {
		t.Fatal(err)
	}
	plane = own
	t.Cleanup(func() {
		plane = shared
		if err := own.Stop(); err != nil {
			t.Error(err)
		}
	})
	c := newCluster(t, dynamicPool("lan", "", "::f000:0-::f000:ff"))
	c.create("web", ofIPv6, annotated(v1alpha1.AddressesAnnotation, "::f000:5"))
	c.within(time.Minute, "web", reasonIs("PoolNotReady"))
	c.reports("2001:db8:1::1/64")
	c.within(time.Minute, "web", func(s *corev1.Service) bool {
		return hasAddress("2001:db8:1::f000:5")(s) && reasonIs(allocator.AnnouncedReason)(s)
	})
	c.told()
	began := time.Now()
	c.reports("2001:db8:2::1/64", "2001:db8:1::1/64")
	c.within(time.Minute, "web", func(s *corev1.Service) bool {
		if address(s) == "" {
			t.Error("the Service has no address meanwhile")
		}
		return hasAddress("2001:db8:2::f000:5")(s)
	})
	t.Logf("the Service follows after %s", time.Since(began).Round(time.Millisecond))
	if told := c.told(); !strings.Contains(told, "Normal PrefixChanged the prefix of AddressPool/lan is now 2001:db8:2::/64: "+
		"address 2001:db8:1::f000:5 became 2001:db8:2::f000:5") || strings.Contains(told, "Warning") {
		t.Errorf("Events:\n%s", told)
	}
	pool, err := c.objects.AddressPools.Get(t.Context(), "lan", metav1.GetOptions{})
	if err != nil || pool.Status.DynamicPrefix == nil || pool.Status.DynamicPrefix.Prefix != "2001:db8:2::/64" {
		t.Fatalf("the pool's status is %+v, %v", pool.Status, err)
	}
	c.reports() // and the line is down
	c.lead()
	c.create("late", ofIPv6, annotated(v1alpha1.AddressesAnnotation, "::f000:6"))
	c.within(time.Minute, "late", hasAddress("2001:db8:2::f000:6"))
	c.within(time.Second, "web", hasAddress("2001:db8:2::f000:5"))
}

// A claim that cannot be written keeps no pool from the prefix that the Nodes report.
func TestCluster_FollowBesideRefusedClaim(t *testing.T) {
	c := newCluster(t, dynamicPool("lan", "", "::f000:0-::f000:ff"), addressPool("other", "192.0.2.50-192.0.2.51"))
	c.create("first")
	c.within(time.Minute, "first", reasonIs(allocator.AnnouncedReason))
	c.end()
	config := rest.CopyConfig(plane.Config)
	config.QPS = -1
	var refused atomic.Int64
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/ipaddresses") {
				return next.RoundTrip(r)
			}
			refused.Add(1)
			return &http.Response{StatusCode: http.StatusUnprocessableEntity, Body: http.NoBody, Header: http.Header{}, Request: r}, nil
		})
	})
	c.client = kubernetes.NewForConfigOrDie(config)
	c.lead()
	c.create("second")
	c.reports("2001:db8:1::1/64")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		pool, err := c.objects.AddressPools.Get(t.Context(), "lan", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if p := pool.Status.DynamicPrefix; p != nil && p.Prefix == "2001:db8:1::/64" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the pool's status is %+v", pool.Status)
		}
	}
	if refused.Load() == 0 {
		t.Error("no claim was refused")
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// reports has the agent of n1 report addresses. All but the first are deprecated.
func (c *cluster) reports(addresses ...string) {
	c.Helper()
	var interfaces []v1alpha1.AgentInterface
	if len(addresses) > 0 {
		interfaces = []v1alpha1.AgentInterface{{Name: "eth0", Addresses: addresses, Deprecated: addresses[1:]}}
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"interfaces": interfaces, "announced": 0, "routed": 0}})
	if err != nil {
		c.Fatal(err)
	}
	if _, err := c.objects.NodeAgents.Patch(c.Context(), "n1", types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		c.Fatal(err)
	}
}
