package journal

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/runlease"
)

// LeaseLasts is for how long a Lease must go without a renewal until it is another's.
const LeaseLasts = 15 * time.Second

const (
	leaseObject = "Lease/" + v1alpha1.Namespace + "/" + v1alpha1.RunLeaseName
	renewEvery  = LeaseLasts / 5
	// trusted is how long after a renewal the Lease is taken for our own without asking.
	trusted = LeaseLasts / 2
)

// lease is that of one run. It is asked for before the journal is written, if it was not renewed for a while: others only end when they
// lose theirs.
type lease struct {
	of *runlease.Lease

	mu      sync.Mutex
	live    *coordinationv1.Lease
	renewed time.Time
	why     error         // that ended it
	ended   chan struct{} // closed when the Lease is lost, or given back
	done    chan struct{} // closed when nothing renews it any more
}

func newLease(client kubernetes.Interface, run Run) *lease {
	return &lease{
		of: &runlease.Lease{
			Client: client, Namespace: v1alpha1.Namespace, Name: v1alpha1.RunLeaseName, Lasts: LeaseLasts,
			Holder: fmt.Sprintf("ccmadm %s on %s, process %d, %s", run.Command, run.Machine, os.Getpid(), rand.String(5)),
			Ask:    Ask, Waiting: run.Waiting, Refuse: heldError,
		},
		ended: make(chan struct{}), done: make(chan struct{}),
	}
}

// take returns once the Lease is ours, and is renewed from then on.
func (l *lease) take(ctx context.Context) error {
	live, err := l.of.Take(ctx)
	if err == nil {
		l.note(live)
		l.keep(ctx)
	}
	return err
}

func heldError(holder string) error {
	return finding.Refusedf("begin: another run is under way: %s holds %s", holder, leaseObject).
		WithHint("one run changes a cluster at a time; ccmadm journal shows what it does. Nothing was changed")
}

func (l *lease) note(live *coordinationv1.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live, l.renewed = live, time.Now()
}
