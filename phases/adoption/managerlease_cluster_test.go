package adoption

import (
	"context"
	"strings"
	"testing"

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
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.renewed {
				go keepRenewing(ctx, client)
			}
			if err := manager.RemoveManagerLease(ctx, r); err != nil {
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

// keepRenewing does what a leader does.
func keepRenewing(ctx context.Context, client kubernetes.Interface) {
	leases := client.CoordinationV1().Leases(v1alpha1.Namespace)
	for ctx.Err() == nil {
		if l, err := leases.Get(ctx, v1alpha1.LeaseName, metav1.GetOptions{}); err == nil {
			l.Spec.RenewTime = new(metav1.NowMicro())
			_, _ = leases.Update(ctx, l, metav1.UpdateOptions{})
		}
	}
}
