package phases

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/manager"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/record"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// Between two providers nobody leads. A Lease that the former manager has left held goes once nobody else would have
// taken it; it stays where somebody took it, however late, and where nobody can know.
func TestEndLease(t *testing.T) {
	m, _ := machinetest.New(t)
	for _, tt := range []struct {
		name, holder  string
		lasts         int32
		taken         time.Duration
		unavailable   int
		kept          bool
		atLeast, most time.Duration
		want          string
	}{
		{name: "given back", lasts: 15, kept: true},
		{name: "of one that has ended", holder: "former_1", lasts: 15, atLeast: 25 * time.Second, most: 28 * time.Second},
		{
			name: "of another one", holder: "cp1_1", lasts: 15, taken: time.Second, kept: true,
			want: "is running: cp1_1 renews Lease", most: 3 * time.Second,
		},
		{
			name: "taken late", holder: "former_1", lasts: 15, taken: 23 * time.Second, kept: true,
			want: "is running: other_1 renews Lease", most: 26 * time.Second,
		},
		{name: "an API server that does not answer", holder: "former_1", lasts: 15, unavailable: 3, most: 40 * time.Second},
		{name: "that lasts longer than it is watched", holder: "vendor_1", lasts: 240, kept: true, most: 75 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lease := &coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.Namespace, Name: v1alpha1.LeaseName, ResourceVersion: "1"},
					Spec:       coordinationv1.LeaseSpec{HolderIdentity: &tt.holder, LeaseDurationSeconds: &tt.lasts},
				}
				client := fake.NewClientset(lease)
				client.PrependReactor("delete", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
					if tt.unavailable == 0 {
						return false, nil, nil
					}
					tt.unavailable--
					return true, nil, apierrors.NewServiceUnavailable("it starts")
				})
				leases := client.CoordinationV1().Leases(v1alpha1.Namespace)
				if tt.taken > 0 {
					time.AfterFunc(tt.taken, func() {
						other := lease.DeepCopy()
						other.ResourceVersion = "2"
						if tt.taken > 15*time.Second {
							other.Spec.HolderIdentity = new("other_1")
						}
						if _, err := leases.Update(context.Background(), other, metav1.UpdateOptions{}); err != nil {
							t.Error(err)
						}
					})
				}
				start := time.Now()
				err := manager.EndLease(t.Context(), record.NewBare(m, workflow.Inputs{}, workflow.Streams{Out: io.Discard}, "test").Env, client, v1alpha1.LeaseName)
				phasestest.WantError(t, err, tt.want, finding.ExitRefused)
				if took := time.Since(start); took < tt.atLeast || took > tt.most {
					t.Errorf("it took %s, want %s to %s", took, tt.atLeast, tt.most)
				}
				_, gone := leases.Get(t.Context(), v1alpha1.LeaseName, metav1.GetOptions{})
				if kept := gone == nil; kept != tt.kept || gone != nil && !apierrors.IsNotFound(gone) {
					t.Errorf("kept %v, want %v: %v", kept, tt.kept, gone)
				}
			})
		})
	}
}
