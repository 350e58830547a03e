package lb

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// TestBrokenPools: a pool that the administrator disabled is not Ready, and no error.
func TestBrokenPools(t *testing.T) {
	pool := v1alpha1.AddressPool{}
	pool.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Disabled"}}
	if err := brokenPools([]v1alpha1.AddressPool{pool}); err == nil {
		t.Error("a pool that is not Ready is no error")
	}
	pool.Spec.Disabled = true
	if err := brokenPools([]v1alpha1.AddressPool{pool}); err != nil {
		t.Errorf("a disabled pool: %v", err)
	}
}

// TestRanges: host parts are listed with the prefix that they have, as soon as it is known.
func TestRanges(t *testing.T) {
	p := &v1alpha1.AddressPool{}
	p.Spec.Ranges = []string{"192.0.2.1", "192.0.2.8/29"}
	p.Spec.DynamicPrefix = &v1alpha1.PoolDynamicPrefix{Length: 64, Hosts: []string{"::5", "::6"}}
	if got, want := ranges(p), "192.0.2.1,192.0.2.8/29,::5,::6 in ?"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	p.Status.DynamicPrefix = &v1alpha1.PoolPrefix{Prefix: "2001:db8:1::/64"}
	if got, want := ranges(p), "192.0.2.1,192.0.2.8/29,::5,::6 in 2001:db8:1::/64"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
