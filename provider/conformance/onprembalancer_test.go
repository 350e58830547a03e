package conformance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider"
	"github.com/ccmadm/ccmadm/provider/conformance"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// With a pool, Services have addresses of their own, which an agent announces. Here it has no network: it reports what
// is claimed.
func TestCluster_OnPremWithPool(t *testing.T) {
	t.Parallel()
	config := ownPlane(t)
	_, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{Paths: []string{"../../manifests/crds"}, MaxTime: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	clients, err := objects.New(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = clients.AddressPools.Create(t.Context(), &v1alpha1.AddressPool{
		ObjectMeta: metav1.ObjectMeta{Name: "lan"}, Spec: v1alpha1.AddressPoolSpec{Ranges: []string{"203.0.113.0/28"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	announceClaims(t, config, clients.NodeAgents)
	results := conformance.Check(t.Context(), conformance.Options{
		Config: config,
		Only: func(r conformance.Rule) bool {
			return strings.Contains(r.Name, "load-balancer") || strings.HasPrefix(r.Name, "services")
		},
		New: func() (conformance.Cloud, error) {
			cloud, err := provider.New(nil)
			return conformance.Cloud{Provider: cloud}, err
		},
	})
	if len(results) != 10 {
		t.Errorf("got %d rules about load balancers, want 10", len(results))
	}
	for _, result := range results {
		// Its cloud is the API server, without which upstream's controllers ask nothing.
		if result.Err != nil && result.Rule.Name != "load-balancer-is-not-lost-in-a-fault" {
			t.Errorf("%s: %v", result.Rule.Name, result.Err)
		}
	}
	saysNothingOfUpdates(t, config)
}

// saysNothingOfUpdates fails for Events about calls that do nothing, of which a Node brings one for each Service.
func saysNothingOfUpdates(t *testing.T, config *rest.Config) {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	events, err := client.CoreV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{
		FieldSelector: "involvedObject.kind=Service",
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, e := range events.Items {
		seen[e.Reason]++
	}
	if seen["EnsuredLoadBalancer"] == 0 || seen["UpdatedLoadBalancer"] > 0 {
		t.Errorf("Events by reason: %v, want some of EnsuredLoadBalancer, and none of UpdatedLoadBalancer", seen)
	}
}

// announceClaims is an agent.
func announceClaims(t *testing.T, config *rest.Config, agents *objects.NodeAgents) {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = agents.Create(t.Context(), &v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: "agent"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	running.Go(func() {
		for last := ""; t.Context().Err() == nil; time.Sleep(50 * time.Millisecond) {
			said, err := announceOnce(t.Context(), client, agents, last)
			if err != nil && t.Context().Err() == nil {
				t.Log(err)
			}
			last = said
		}
	})
}

func announceOnce(ctx context.Context, client kubernetes.Interface, agents *objects.NodeAgents, last string) (string, error) {
	claims, err := client.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{
		LabelSelector: networkingv1.LabelManagedBy + "=" + v1alpha1.ClaimManager,
	})
	if err != nil {
		return last, err
	}
	announcements := []v1alpha1.Announcement{}
	for _, claim := range claims.Items {
		if claim.Annotations[v1alpha1.ClaimReleasedAnnotation] == "" {
			announcements = append(announcements, v1alpha1.Announcement{Address: claim.Name, Level: v1alpha1.LevelL2})
		}
	}
	said := fmt.Sprint(announcements)
	if said == last {
		return last, nil
	}
	patch, err := json.Marshal(map[string]any{"status": v1alpha1.NodeAgentStatus{
		RenewTime: metav1.NowMicro(), Announcements: announcements,
	}})
	if err != nil {
		return last, err
	}
	_, err = agents.Patch(ctx, "agent", types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return said, err
}
