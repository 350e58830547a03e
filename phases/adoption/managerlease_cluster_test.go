package adoption

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// The manager's Lease goes only where nobody renews it: a vendor's manager may lead by it now.
func TestCluster_Leave_PurgeLease(t *testing.T) {
	m, client := plain(t)
	leases := client.CoordinationV1().Leases(v1alpha1.Namespace)
	for _, tt := range []struct {
		name, holder, say string
		renewed, kept     bool
	}{
		{name: "given back", say: "removed"},
		{name: "of a manager that was killed", holder: "ours_1", say: "removed"},
		{name: "of another one", holder: "vendor_1", renewed: true, kept: true, say: "is kept: vendor_1 renews it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			phasestest.Made(t, leases, &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.LeaseName},
				Spec:       coordinationv1.LeaseSpec{HolderIdentity: &tt.holder, LeaseDurationSeconds: new(int32(3))},
			})
			r, out := adoption(t, m, workflow.Inputs{}, Adoption{Yes: true})
			if tt.renewed {
				keepRenewing(t, client)
			}
			if err := manager.RemoveManagerLease(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			_, err := leases.Get(t.Context(), v1alpha1.LeaseName, metav1.GetOptions{})
			if kept := err == nil; kept != tt.kept || !strings.Contains(out.String(), tt.say) {
				t.Errorf("kept %v (%v)\n%s", kept, err, out)
			}
		})
	}
}

// A vendor's manager that has ended, as by leave a moment ago, leaves its Lease held: adopt again, or a rollback, is
// not refused for it.
func TestCluster_Adopt_LeaseOfAManagerThatHasEnded(t *testing.T) {
	m, client := plain(t)
	phasestest.Made(t, client.CoordinationV1().Leases(v1alpha1.Namespace), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.LeaseName},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("cp1_ended"), LeaseDurationSeconds: new(int32(2)), RenewTime: new(metav1.NowMicro()),
		},
	})
	r, out := adoption(t, m, workflow.Inputs{DryRun: true}, Adoption{})
	if err := adoptPreflight().Do(t.Context(), r); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// keepRenewing does what a leader does, until the test ends.
func keepRenewing(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	leases := client.CoordinationV1().Leases(v1alpha1.Namespace)
	ctx, stop := context.WithCancel(t.Context())
	var renewal sync.WaitGroup
	renewal.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
			l, err := leases.Get(ctx, v1alpha1.LeaseName, metav1.GetOptions{})
			if err == nil {
				l.Spec.RenewTime = new(metav1.NowMicro())
				_, err = leases.Update(ctx, l, metav1.UpdateOptions{})
			}
			if err != nil && ctx.Err() == nil {
				t.Errorf("renew the Lease: %v", err)
				return
			}
		}
	})
	t.Cleanup(func() { // before the Lease goes
		stop()
		renewal.Wait()
	})
}
