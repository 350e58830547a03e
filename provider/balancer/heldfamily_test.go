package balancer

import (
	"errors"
	"maps"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// Addresses of both families move, and the API server refuses the write of one Service: the address of the other family moves all the
// same, and nothing else of a Service is written that is held.
func TestWrite_HoldsOneFamily(t *testing.T) {
	for _, tt := range []struct {
		name, refused string
		overlap       bool
		services      []string
		want          map[string]string // after the pass; others are as before
	}{
		{
			"two give to one", "old6", false,
			[]string{"old4 192.0.2.1 -", "old6 2001:db8::1 -", "new - 192.0.2.1,2001:db8::1"},
			map[string]string{"old4": "", "new": "192.0.2.1"},
		},
		{
			"one gives to two", "new6", true,
			[]string{"old 192.0.2.1,2001:db8::1 -", "new4 - 192.0.2.1", "new6 - 2001:db8::1"},
			map[string]string{"old": "2001:db8::1", "new4": "192.0.2.1"},
		},
		{
			"one gives and gets", "end6", true,
			[]string{"old 192.0.2.1 -", "new 2001:db8::1,192.0.2.9 192.0.2.1", "end6 - 2001:db8::1"},
			map[string]string{"old": "", "new": "192.0.2.1,2001:db8::1"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			statuses := changing(tt.services...)
			client := fake.NewClientset()
			for name, st := range statuses {
				st.Service.UID, st.After.UID = types.UID(name.Name), types.UID(name.Name)
				st.After.Annotations = map[string]string{"written": "whole"}
				if err := client.Tracker().Add(st.Service); err != nil {
					t.Fatal(err)
				}
			}
			client.PrependReactor("patch", "services", func(a clienttesting.Action) (bool, runtime.Object, error) {
				return a.(clienttesting.PatchAction).GetName() == tt.refused, nil, apierrors.NewBadRequest("webhook denied the request")
			})
			b := newOffline(t)
			b.Client, b.Recorder = client, record.NewFakeRecorder(100)
			if err := b.write(t.Context(), &allocator.Plan{}, maps.Clone(statuses), tt.overlap, nil); err != nil {
				t.Fatal(err)
			}
			for name, st := range statuses {
				got, err := client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("services"), name.Namespace, name.Name)
				if err != nil {
					t.Fatal(err)
				}
				service := got.(*corev1.Service)
				want, changed := tt.want[name.Name]
				if !changed {
					want = address(st.Service)
				}
				if address(service) != want {
					t.Errorf("%s has %q, want %q", name.Name, address(service), want)
				}
				if whole := want == address(st.After); (service.Annotations["written"] != "") != whole {
					t.Errorf("%s: annotations %v, and all addresses are as they should be: %t", name.Name, service.Annotations, whole)
				}
			}
		})
	}
}

// A claim of one family cannot be written: the other family moves all the same, unless the Service wants both and has none.
func TestWrite_HoldsTheFamilyOfAClaim(t *testing.T) {
	for _, tt := range []struct {
		name    string
		overlap bool
		all     bool // the Service wants both families
		failing string
		lines   []string
		want    map[string]string
	}{
		{
			"an address moves, and one comes", false, false, "2001:db8::1",
			[]string{"old 192.0.2.1 -", "new - 192.0.2.1,2001:db8::1"},
			map[string]string{"old": "", "new": "192.0.2.1"},
		},
		{
			"the same to a Service that wants both", true, true, "2001:db8::1",
			[]string{"old 192.0.2.1 -", "new - 192.0.2.1,2001:db8::1"},
			map[string]string{"old": "192.0.2.1", "new": ""},
		},
		{
			"to one that has one of the other family", true, true, "2001:db8::1",
			[]string{"old 192.0.2.1 -", "new 2001:db8::9 192.0.2.1,2001:db8::1"},
			map[string]string{"old": "", "new": "192.0.2.1,2001:db8::9"},
		},
		{
			"the claim is of the address that moves", true, false, "192.0.2.1",
			[]string{"old 192.0.2.1,2001:db8::1 -", "new - 192.0.2.1"},
			map[string]string{"old": "192.0.2.1", "new": ""},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			statuses := changing(tt.lines...)
			client := fake.NewClientset()
			for name, st := range statuses {
				for _, s := range []*corev1.Service{st.Service, st.After} {
					s.UID = types.UID(name.Name)
					policy := corev1.IPFamilyPolicyPreferDualStack
					if tt.all {
						policy = corev1.IPFamilyPolicyRequireDualStack
					}
					families(policy, corev1.IPv4Protocol, corev1.IPv6Protocol)(s)
				}
				if err := client.Tracker().Add(st.Service); err != nil {
					t.Fatal(err)
				}
			}
			client.PrependReactor("create", "ipaddresses", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, apierrors.NewServiceUnavailable("etcd has no leader")
			})
			b := newOffline(t)
			b.Client, b.Recorder = client, record.NewFakeRecorder(100)
			at := netip.MustParseAddr(tt.failing)
			p := &allocator.Plan{Claims: map[netip.Addr]*allocator.Claim{
				at: {Address: at, Owners: []types.NamespacedName{named("a/new")}, Parent: named("a/new")},
			}}
			if err := b.write(t.Context(), p, statuses, tt.overlap, nil); err == nil {
				t.Error("the claim was written")
			}
			for name, want := range tt.want {
				got, err := client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("services"), "a", name)
				if err != nil {
					t.Fatal(err)
				}
				if address(got.(*corev1.Service)) != want {
					t.Errorf("%s has %q, want %q", name, address(got.(*corev1.Service)), want)
				}
			}
		})
	}
}

// A Service that asks for other addresses gets one, and the other family is held. It does not ask again for what it was just told.
func TestWithHeld_Reassigned(t *testing.T) {
	for _, tt := range []struct {
		name string
		held []bool
		want bool // it asks still
	}{{"one family is held", []bool{true}, false}, {"both are held", []bool{false, true}, true}} {
		t.Run(tt.name, func(t *testing.T) {
			st := changing("web 192.0.2.1,2001:db8::1 192.0.2.2,2001:db8::2")[named("a/web")]
			st.Service.Annotations = map[string]string{v1alpha1.ReassignAnnotation: "true"}
			kept := withHeld(st, tt.held)
			if asks := kept.After.Annotations[v1alpha1.ReassignAnnotation] != ""; asks != tt.want {
				t.Errorf("it has %s, and asks for another one: %t", address(kept.After), asks)
			}
		})
	}
}

// Upstream writes what it is answered. Of a Service that is held this is not what the pass has planned.
func TestEnsureLoadBalancer_Held(t *testing.T) {
	statuses := changing("old 192.0.2.1 192.0.2.9", "new - 192.0.2.1")
	client := fake.NewClientset()
	b := newOffline(t)
	for name, st := range statuses {
		for _, s := range []*corev1.Service{st.Service, st.After} {
			s.UID, s.ResourceVersion = types.UID(name.Name), "5"
			saysAnnounced(s)
		}
		st.Complete = true
		if err := errors.Join(client.Tracker().Add(st.Service), b.caches.services.GetStore().Add(st.Service)); err != nil {
			t.Fatal(err)
		}
	}
	client.PrependReactor("patch", "services", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return a.(clienttesting.PatchAction).GetName() == "new", nil, apierrors.NewBadRequest("webhook denied the request")
	})
	b.Client, b.Recorder = client, record.NewFakeRecorder(100)
	if err := b.write(t.Context(), &allocator.Plan{}, statuses, true, nil); err != nil {
		t.Fatal(err)
	}
	b.statuses = statuses
	old := statuses[named("a/old")].Service
	began := time.Now()
	if got, err := b.EnsureLoadBalancer(t.Context(), "", old, nil); !errors.Is(err, cloudprovider.ImplementedElsewhere) {
		t.Errorf("got %+v, %v, want that upstream has nothing to do", got, err)
	}
	if took := time.Since(began); took >= patience {
		t.Errorf("it has kept upstream's worker for %s", took)
	}
	if got := address(statuses[named("a/old")].After); got != "192.0.2.1" {
		t.Errorf("its load balancer is said to have %q", got)
	}
}
