package journal

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// LeaseLasts is for how long a Lease must go without a renewal until it is another's.
const LeaseLasts = 15 * time.Second

const (
	leaseObject = "Lease/" + v1alpha1.Namespace + "/" + v1alpha1.RunLeaseName
	renewEvery  = 3 * time.Second
	lookEvery   = time.Second
	// trusted is how long after a renewal the Lease is taken for our own without asking.
	trusted = LeaseLasts / 2
)

// lease is that of one run.
type lease struct {
	leases coordinationclient.LeaseInterface
	holder string

	mu      sync.Mutex
	live    *coordinationv1.Lease
	renewed time.Time
	why     error         // that ended it
	ended   chan struct{} // closed when the Lease is lost, or given back
	done    chan struct{} // closed when nothing renews it any more
}

func newLease(client kubernetes.Interface, run Run) *lease {
	return &lease{
		leases: client.CoordinationV1().Leases(v1alpha1.Namespace),
		holder: fmt.Sprintf("ccmadm %s on %s, process %d, %s", run.Command, run.Machine, os.Getpid(), rand.String(5)),
		ended:  make(chan struct{}), done: make(chan struct{}),
	}
}

// take returns once the Lease is ours, and is renewed from then on.
func (l *lease) take(ctx context.Context, waiting func(string)) error {
	var seen *coordinationv1.Lease // since when it is so, by this machine's clock: no two clocks are compared
	var since time.Time
	for {
		var found *coordinationv1.Lease
		asked, left := time.Now(), (*coordinationv1.Lease)(nil)
		if seen != nil && asked.Sub(since) > LeaseLasts {
			left = seen
		}
		err := Ask(ctx, func(ctx context.Context) (err error) {
			found, err = l.grab(ctx, left)
			return err
		})
		switch {
		case err != nil:
			return err
		case found == nil:
			l.keep(ctx)
			return nil
		case seen == nil:
			if waiting != nil {
				waiting(ptr.Deref(found.Spec.HolderIdentity, ""))
			}
			seen, since = found, time.Now()
		case !unchanged(seen, found):
			return heldError(found)
		case time.Since(asked) > LeaseLasts/3: // while it could not be looked at, it could not be renewed
			since = time.Now()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", leaseObject, context.Cause(ctx))
		case <-time.After(lookEvery):
		}
	}
}

func heldError(found *coordinationv1.Lease) error {
	holder := ptr.Deref(found.Spec.HolderIdentity, "")
	return finding.Refusedf("begin: another run is under way: %s holds %s", holder, leaseObject).
		WithHint("one run changes a cluster at a time; ccmadm journal shows what it does. Nothing was changed")
}

// grab takes the Lease where there is none, where nobody holds it, or where it still is the one that its holder has
// left; else it returns it.
func (l *lease) grab(ctx context.Context, left *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	found, err := l.leases.Get(ctx, v1alpha1.RunLeaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, l.write(ctx, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("ask for %s: %w", leaseObject, err)
	}
	switch holder := ptr.Deref(found.Spec.HolderIdentity, ""); {
	case holder == l.holder: // an answer was lost
		l.note(found)
		return nil, nil
	case holder == "", left != nil && unchanged(left, found):
		return nil, l.write(ctx, found)
	}
	return found, nil
}

func unchanged(a, b *coordinationv1.Lease) bool {
	return a.UID == b.UID && a.ResourceVersion == b.ResourceVersion
}

// write makes the Lease ours, over what it was; a conflict says that somebody else was faster, and is asked again.
func (l *lease) write(ctx context.Context, over *coordinationv1.Lease) error {
	t := metav1.NewMicroTime(time.Now())
	next := &coordinationv1.Lease{}
	next.Namespace, next.Name = v1alpha1.Namespace, v1alpha1.RunLeaseName
	if over != nil {
		next = over.DeepCopy()
	}
	metav1.SetMetaDataLabel(&next.ObjectMeta, v1alpha1.ManagedByLabel, v1alpha1.FieldManager)
	if ptr.Deref(next.Spec.HolderIdentity, "") != l.holder {
		next.Spec.AcquireTime = &t
	}
	next.Spec.HolderIdentity, next.Spec.RenewTime = &l.holder, &t
	next.Spec.LeaseDurationSeconds = new(int32(LeaseLasts.Seconds()))
	var written *coordinationv1.Lease
	var err error
	if over == nil {
		written, err = l.leases.Create(ctx, next, metav1.CreateOptions{FieldManager: v1alpha1.FieldManager})
	} else {
		written, err = l.leases.Update(ctx, next, metav1.UpdateOptions{FieldManager: v1alpha1.FieldManager})
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", leaseObject, err)
	}
	l.note(written)
	return nil
}

func (l *lease) note(live *coordinationv1.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live, l.renewed = live, time.Now()
}
