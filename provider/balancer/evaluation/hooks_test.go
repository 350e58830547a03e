package evaluation

import (
	"net/netip"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// The condition of a Service stays True while a hook fails, and says which one, on which Node: the address is announced.
func TestInputs_FailingHooks(t *testing.T) {
	one, two := netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("203.0.113.8")
	now := time.Now()
	agent := &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}
	agent.Status.RenewTime = metav1.NewMicroTime(now)
	agent.Status.Announcements = []v1alpha1.Announcement{
		{Address: one.String(), Level: v1alpha1.LevelL2, Hook: "answers 503 Service Unavailable, since 2026-11-28T13:00:00Z\x1b[2J"},
		{Address: two.String(), Level: v1alpha1.LevelL2},
	}
	e := &Inputs{
		Reports: ReadReports([]*v1alpha1.NodeAgent{agent}, nil, objects.Liveness{}, now, nil),
		Plan:    &allocator.Plan{Claims: map[netip.Addr]*allocator.Claim{one: {Pool: "public"}, two: {Pool: "public"}}},
	}
	want := "; the hook of AddressPool/public for 203.0.113.7 on Node/w1 answers 503 Service Unavailable, since 2026-11-28T13:00:00Z"
	if got := e.failingHooks([]netip.Addr{one, two}); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := e.failingHooks([]netip.Addr{two}); got != "" {
		t.Errorf("got %q of an address whose hook does not fail", got)
	}
}
