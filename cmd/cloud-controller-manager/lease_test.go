package main

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const leaseName = "cloud-controller-manager"

func holder(lease *coordinationv1.Lease) string { return ptr.Deref(lease.Spec.HolderIdentity, "") }

// The next leader need not wait for 15 seconds (kubernetes/kubernetes#119905).
func TestCluster_ReleasesLease(t *testing.T) {
	leases := client(t, plane.Config).CoordinationV1().Leases("kube-system")
	first := start(t, controllerManager(t))
	first.says("Starting controllers")
	second := start(t, controllerManager(t))
	second.says("Attempting to acquire leader lease")
	second.healthy()

	if code := first.stop(); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	released := time.Now()
	second.says("Starting controllers")
	t.Logf("the next one led %s later", time.Since(released).Round(time.Millisecond))
	join(t, "after", "198.18.0.2", corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{MachineID: machine1}})
	initialized(t, "after")

	second.stop()
	lease, err := leases.Get(t.Context(), leaseName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := holder(lease); got != "" {
		t.Errorf("%s still holds the Lease", got)
	}
}

// Two leaders are worse than none.
func TestCluster_EndsWithoutLease(t *testing.T) {
	leases := client(t, plane.Config).CoordinationV1().Leases("kube-system")
	p := start(t, controllerManager(t),
		"--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=200ms")
	p.says("Starting controllers")

	eventually(t, "the Lease is stolen", func(ctx context.Context) error {
		lease, err := leases.Get(ctx, leaseName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		lease.Spec.HolderIdentity = new("thief")
		lease.Spec.LeaseDurationSeconds = new(int32(3600))
		lease.Spec.RenewTime = new(metav1.NowMicro())
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
	t.Cleanup(func() {
		if err := leases.Delete(context.WithoutCancel(t.Context()), leaseName, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	if code := p.exitCode(); code != 1 {
		t.Errorf("got exit code %d, want 1", code)
	}
	p.says("lost the lease")
	lease, err := leases.Get(t.Context(), leaseName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := holder(lease); got != "thief" {
		t.Errorf("the Lease went from the thief to %q", got)
	}
}

// Without an election there is no Lease at all.
func TestCluster_WithoutElection(t *testing.T) {
	p := start(t, controllerManager(t), "--leader-elect=false", "--leader-elect-resource-name=unwanted")
	join(t, "lonely", "198.18.0.2", corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{MachineID: machine1}})
	initialized(t, "lonely")
	if code := p.stop(); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	leases, err := client(t, plane.Config).CoordinationV1().Leases("kube-system").List(t.Context(), metav1.ListOptions{
		FieldSelector: "metadata.name=unwanted",
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(leases.Items) != 0 {
		t.Errorf("there is a Lease: %v", leases.Items)
	}
}
