package journal

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

func began() *Run { return &Run{State: Begun, Holder: "ccmadm adopt on cp1, process 7, abcde"} }

// leaseOf plays the API server's Lease: version says which renewal it has at a time since the start of the test.
func leaseOf(holder string, version func(time.Duration) (int, error)) kubernetes.Interface {
	client, start := fake.NewClientset(), time.Now()
	client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		n, err := version(time.Since(start))
		if err != nil {
			return true, nil, err
		}
		return true, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.Namespace, Name: v1alpha1.RunLeaseName, ResourceVersion: strconv.Itoa(n)},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder},
		}, nil
	})
	return client
}

// renewed has another version each 3 s until a time; it is not renewed from then on.
func renewed(until time.Duration) func(time.Duration) (int, error) {
	return func(at time.Duration) (int, error) { return int(min(at, until) / renewEvery), nil }
}

// TestRenewals plays looks at a Lease: each is at a time since the start, with a patience, and has an answer.
func TestRenewals(t *testing.T) {
	type look struct {
		at, patience time.Duration
		want         Progress
		fails        bool
		takes        time.Duration // at most
	}
	const never = time.Hour
	down := func(from, to time.Duration, f func(time.Duration) (int, error)) func(time.Duration) (int, error) {
		return func(at time.Duration) (int, error) {
			if at >= from && at < to {
				return 0, apierrors.NewServiceUnavailable("no")
			}
			return f(at)
		}
	}
	for name, tt := range map[string]struct {
		holder  string
		version func(time.Duration) (int, error)
		looks   []look
	}{
		"a run under way, watched":  {version: renewed(never), looks: []look{{patience: WatchLease, want: UnderWay, takes: 5 * time.Second}}},
		"a killed run, watched":     {version: renewed(0), looks: []look{{patience: WatchLease, want: Stopped, takes: WatchLease}}},
		"a killed run, one look":    {version: renewed(0), looks: []look{{want: NotKnown}}},
		"a killed run, a short one": {version: renewed(0), looks: []look{{patience: 4 * time.Second, want: NotKnown, takes: 5 * time.Second}}},
		"looks without patience, of a killed run": {version: renewed(0), looks: []look{
			{want: NotKnown}, {at: 10 * time.Second, want: NotKnown}, {at: 20 * time.Second, want: Stopped}, {at: 30 * time.Second, want: Stopped},
		}},
		"looks without patience, of a run under way": {version: renewed(never), looks: []look{
			{want: NotKnown}, {at: 10 * time.Second, want: UnderWay}, {at: 20 * time.Second, want: UnderWay},
		}},
		"a run that is killed between two looks": {version: renewed(12 * time.Second), looks: []look{
			{want: NotKnown},
			{at: 10 * time.Second, want: UnderWay},
			{at: 20 * time.Second, want: UnderWay},
			{at: 30 * time.Second, want: NotKnown},
			{at: 40 * time.Second, want: Stopped},
		}},
		"a renewal some time between two far looks": {version: renewed(time.Minute), looks: []look{
			{want: NotKnown}, {at: 10 * time.Minute, want: NotKnown}, {at: 20 * time.Minute, want: Stopped},
		}},
		"an earlier look makes watching shorter": {version: renewed(0), looks: []look{
			{want: NotKnown}, {at: 10 * time.Second, patience: WatchLease, want: Stopped, takes: 7 * time.Second},
		}},
		"while the API server was down, no run could renew": {version: down(5*time.Second, 25*time.Second, renewed(0)), looks: []look{
			{want: NotKnown}, {at: 10 * time.Second, want: NotKnown, fails: true}, {at: 30 * time.Second, want: NotKnown},
		}},
		"another holder": {holder: "another", version: renewed(never), looks: []look{{patience: WatchLease, want: Stopped}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				run := began()
				if tt.holder == "" {
					tt.holder = run.Holder
				}
				client, start := leaseOf(tt.holder, tt.version), time.Now()
				var w Renewals
				for _, l := range tt.looks {
					time.Sleep(l.at - time.Since(start))
					before := time.Now()
					got, err := w.UnderWay(t.Context(), client, run, l.patience)
					if got != l.want || (err != nil) != l.fails || time.Since(before) > l.takes {
						t.Errorf("look at %s: got %d, %v after %s; want %d", l.at, got, err, time.Since(before), l.want)
					}
				}
			})
		})
	}
}

// TestRenewals_NotSeen: no Lease, no run that is begun, and no answer.
func TestRenewals_NotSeen(t *testing.T) {
	var w Renewals
	if got, err := w.UnderWay(t.Context(), fake.NewClientset(), began(), 0); got != Stopped || err != nil {
		t.Errorf("without a Lease: got %d, %v", got, err)
	}
	if got, err := w.UnderWay(t.Context(), nil, &Run{State: Failed}, WatchLease); got != Stopped || err != nil {
		t.Errorf("a run that has failed: got %d, %v", got, err)
	}
	refused := leaseOf("", func(time.Duration) (int, error) { return 0, errors.New("etcdserver: request timed out") })
	if got, err := w.UnderWay(t.Context(), refused, began(), WatchLease); got != NotKnown || err == nil {
		t.Errorf("without an answer: got %d, %v", got, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if got, err := w.UnderWay(ctx, leaseOf(began().Holder, renewed(0)), began(), WatchLease); got != NotKnown || err == nil {
		t.Errorf("without time: got %d, %v", got, err)
	}
}
