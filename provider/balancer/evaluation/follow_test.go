package evaluation

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

var formerAddress, nextAddress = netip.MustParseAddr("2001:db8:1::5"), netip.MustParseAddr("2001:db8:2::5")

const follows = "the prefix of AddressPool/home is now 2001:db8:2::/64: 2001:db8:2::5 replaces 2001:db8:1::5 once an agent announces it"

// following has a Service whose published address another one is to replace.
func following(now time.Time) (*Inputs, *allocator.Assignment) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "web", Annotations: map[string]string{v1alpha1.AllocatedAnnotation: formerAddress.String()},
	}}
	service.Spec.Type, service.Spec.IPFamilies = corev1.ServiceTypeLoadBalancer, []corev1.IPFamily{corev1.IPv6Protocol}
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: formerAddress.String(), IPMode: new(corev1.LoadBalancerIPModeVIP)}}
	as := &allocator.Assignment{Service: service, By: map[bool]netip.Addr{true: formerAddress}, Next: nextAddress, Follows: follows}
	name := allocator.NameOf(service)
	claim := func(address netip.Addr) *allocator.Claim {
		return &allocator.Claim{Address: address, Pool: "home", Level: v1alpha1.LevelL2, Parent: name, Owners: []types.NamespacedName{name}}
	}
	e := &Inputs{
		Now: now, Machines: NewMachines(nil, nil, nil), Missing: map[Awaited]time.Time{},
		Plan: &allocator.Plan{
			Services: map[types.NamespacedName]*allocator.Assignment{name: as},
			Claims:   map[netip.Addr]*allocator.Claim{formerAddress: claim(formerAddress), nextAddress: claim(nextAddress)},
		},
		Reports: Reports{Announced: map[netip.Addr]bool{formerAddress: true}, conflicts: map[netip.Addr]string{}},
	}
	e.Plan.Claims[formerAddress].Probed = now
	return e, as
}

// writeNext has the claim of the second address as it is written at some time.
func (e *Inputs) writeNext(at time.Time) {
	c := e.Plan.Claims[nextAddress]
	c.Object = c.Render()
	c.Object.CreationTimestamp = metav1.NewTime(at)
}

// wantSaid fails where the condition of the Service does not begin so, or where it has not the former address.
func (e *Inputs) wantSaid(t *testing.T, want string) {
	t.Helper()
	after := e.Statuses()[types.NamespacedName{Namespace: "default", Name: "web"}].After
	c := allocator.Condition(after)
	if got := string(c.Status) + " " + c.Reason + ": " + c.Message; !strings.HasPrefix(got, want) {
		t.Errorf("it says %q, want %q", got, want)
	}
	if got := after.Status.LoadBalancer.Ingress; len(got) != 1 || got[0].IP != formerAddress.String() {
		t.Errorf("it has %v", got)
	}
}

// TestStatuses_Follow: a Service says why its address under the new prefix does not replace the other one, which stays.
func TestStatuses_Follow(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		name      string
		age       time.Duration
		conflict  string
		announced bool // the second one, too
		want      string
	}{
		{"it waits", 9 * time.Second, "", false, "True Announced: 2001:db8:1::5 at level L2; " + follows},
		{"a machine has it", time.Second, "MAC answers for it", false, "False AddressConflict: 2001:db8:2::5: MAC answers for it; " + follows},
		{"a machine had it", time.Minute, "MAC answers for it", true, "True Announced: 2001:db8:1::5 at level L2; " + follows},
		{"no agent announces it", AnnounceTime, "", false, "False NotAnnounced: no agent announces 2001:db8:2::5; " + follows},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, _ := following(now)
			e.writeNext(now.Add(-tt.age))
			e.Reports.Announced[nextAddress] = tt.announced
			if tt.conflict != "" {
				e.Reports.conflicts[nextAddress] = tt.conflict
			}
			e.wantSaid(t, tt.want)
		})
	}
}

// TestStatuses_FollowBack: the prefix comes back while the claim under it is kept, whose object is old. Agents have their time from then on,
// also where that cannot be written at first.
func TestStatuses_FollowBack(t *testing.T) {
	now := time.Now()
	e, as := following(now)
	c := e.Plan.Claims[nextAddress]
	c.Released = now.Add(-time.Second)
	e.writeNext(now.Add(-time.Hour))
	c.Released = time.Time{}
	const waits = "True Announced: 2001:db8:1::5 at level L2; " + follows
	e.wantSaid(t, waits)
	e.Now = now.Add(AnnounceTime)
	e.wantSaid(t, waits)
	awaited := Awaited{allocator.NameOf(as.Service), nextAddress}
	if got := e.Missing[awaited]; !got.Equal(e.Now) {
		t.Errorf("it waits since %s, want %s", got, e.Now)
	}
	e.writeNext(now.Add(-time.Hour))
	e.Now = e.Now.Add(AnnounceTime - 1)
	e.wantSaid(t, waits)
	e.Now = e.Now.Add(1)
	e.wantSaid(t, "False NotAnnounced: no agent announces 2001:db8:2::5; "+follows)
	as.Next, as.Follows = netip.Addr{}, ""
	e.wantSaid(t, "True OutOfPool: 2001:db8:1::5 is in no AddressPool any more")
	if len(e.Missing) > 0 {
		t.Errorf("nothing waits any more, and %v is left", e.Missing)
	}
}
