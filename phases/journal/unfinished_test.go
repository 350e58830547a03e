package journal

import (
	"context"
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

func TestUnfinished(t *testing.T) {
	one := []Step{{Name: "kubelet", State: Done}}
	for name, tt := range map[string]struct {
		runs []Run
		want int
	}{
		"no journal": {},
		"all done":   {[]Run{{ID: 1, Command: "adopt", State: Done, Steps: one}}, 0},
		"adopt was interrupted": {[]Run{
			{ID: 1, Command: "apply", State: Done, Steps: one}, {ID: 2, Command: "adopt", State: Failed, Steps: one},
		}, 2},
		"the newest of two": {[]Run{
			{ID: 1, Command: "adopt", State: CutShort, Steps: one}, {ID: 2, Command: "adopt", State: Begun, Steps: one},
		}, 2},
		"the newest has changed nothing yet": {[]Run{
			{ID: 1, Command: "adopt", State: CutShort, Steps: one}, {ID: 2, Command: "adopt", State: Failed},
		}, 1},
		"adopt came to its end later": {[]Run{
			{ID: 1, Command: "adopt", State: CutShort, Steps: one}, {ID: 2, Command: "adopt", State: Done, Steps: one},
		}, 0},
		"leave made up for it": {[]Run{
			{ID: 1, Command: "adopt", State: Failed, Steps: one}, {ID: 2, Command: "leave", State: Done, Steps: one},
		}, 0},
		"an upgrade does not": {[]Run{
			{ID: 1, Command: "adopt", State: Failed, Steps: one},
			{ID: 2, Command: "upgrade apply v1.37.2", Machine: "cp1", State: Done, Steps: one},
		}, 1},
		"apply failed and told why": {[]Run{{ID: 1, Command: "apply", State: Failed, Steps: one}}, 0},
		"apply was killed":          {[]Run{{ID: 1, Command: "apply", State: Begun, Steps: one}}, 1},
		"upgrade of one machine, and not of another": {[]Run{
			{ID: 1, Command: "upgrade node v1.37.2", Machine: "cp2", State: Failed, Steps: one},
			{ID: 2, Command: "upgrade apply v1.37.2", Machine: "cp1", State: Done, Steps: one},
		}, 1},
		"upgrade of the machine came to its end": {[]Run{
			{ID: 1, Command: "upgrade node v1.37.2", Machine: "cp2", State: Failed, Steps: one},
			{ID: 2, Command: "upgrade node v1.37.2", Machine: "cp2", State: Done, Steps: one},
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := 0
			if r := Unfinished(tt.runs); r != nil {
				got = r.ID
			}
			if got != tt.want {
				t.Errorf("got run %d, want %d", got, tt.want)
			}
		})
	}
}

// TestUnderWay has a Lease that is renewed, one that is not, and an API server that does not tell.
func TestUnderWay(t *testing.T) {
	run := &Run{State: Begun, Holder: "ccmadm adopt on cp1, process 7, abcde"}
	held := func(holder string) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.Namespace, Name: v1alpha1.RunLeaseName, ResourceVersion: "1"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder},
		}
	}
	t.Run("another holder", func(t *testing.T) {
		if got, err := UnderWay(t.Context(), fake.NewClientset(held("another")), run); got || err != nil {
			t.Errorf("got %t, %v", got, err)
		}
	})
	t.Run("no Lease", func(t *testing.T) {
		if got, err := UnderWay(t.Context(), fake.NewClientset(), run); got || err != nil {
			t.Errorf("got %t, %v", got, err)
		}
	})
	t.Run("renewed", func(t *testing.T) {
		client, looks := fake.NewClientset(), 0
		client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			lease := held(run.Holder)
			if looks++; looks > 2 {
				lease.ResourceVersion = "2"
			}
			return true, lease, nil
		})
		if got, err := UnderWay(t.Context(), client, run); !got || err != nil {
			t.Errorf("got %t, %v", got, err)
		}
	})
	t.Run("left behind", func(t *testing.T) {
		began := time.Now()
		got, err := UnderWay(t.Context(), fake.NewClientset(held(run.Holder)), run)
		if got || err != nil || time.Since(began) < LeaseLasts {
			t.Errorf("got %t, %v after %s", got, err, time.Since(began))
		}
	})
	t.Run("cannot be asked", func(t *testing.T) {
		client := fake.NewClientset()
		client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("etcdserver: request timed out")
		})
		if got, err := UnderWay(t.Context(), client, run); got || err == nil {
			t.Errorf("got %t, %v", got, err)
		}
	})
	t.Run("no time left", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if got, err := UnderWay(ctx, fake.NewClientset(held(run.Holder)), run); got || err == nil {
			t.Errorf("got %t, %v", got, err)
		}
	})
}
