package doctor

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/phases/journal"
)

// TestDoctor_RunNotKnown: one look at the Lease of a killed run says neither that it stopped nor that it is under way; a later look,
// which has what this one saw, says that it stopped.
func TestDoctor_RunNotKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := &journal.Run{ID: 5, Command: "adopt", Machine: "cp1", State: journal.Begun, Holder: "me", Steps: []journal.Step{{Name: "addon"}}}
		client := fake.NewClientset(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.Namespace, Name: v1alpha1.RunLeaseName},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &run.Holder},
		})
		var w Runs
		for _, tt := range []struct {
			after time.Duration
			want  string
		}{{0, "run 5, adopt on cp1"}, {10 * time.Second, "not known yet"}, {10 * time.Second, ""}} {
			time.Sleep(tt.after)
			var s diagnosis.Snapshot
			before := time.Now()
			err := w.addUnfinished(t.Context(), client, &s, run)
			if time.Since(before) > 0 || (s.Unfinished != nil) != (tt.want == "") || (err == nil) != (tt.want == "") ||
				err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %+v, %v after %s; want %q", s.Unfinished, err, time.Since(before), tt.want)
			}
		}
	})
}
