package inventory

import (
	"context"
	"errors"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/changes"
)

// Watcher keeps a store up to date from a source, and the last good copy as good as the store.
type Watcher struct {
	Source Source
	Store  *Store
	Copy   Copy
	// Changed is called after each new inventory, and Rejected after each reading that did not become it.
	Changed  func()
	Rejected func(*Rejection)
	// Ready returns once a reading can be compared with the copy of the process before. Without a copy nothing waits.
	Ready func()

	kept   Saved     // in the copy
	state  string    // of the copy
	looked time.Time // at the copy
	denied time.Time // since when the copy is that of a later leader
	stale  Reason
	want   string // the state for that reason
}

// Run follows the source until ctx is done. First it takes the copy of the
// process before, so that Nodes can be served if the source is away.
func (w *Watcher) Run(ctx context.Context) {
	saved, err := w.load(ctx)
	w.begin(saved, err)
	if err == nil && saved.Document != nil {
		err = w.Store.Restore(saved)
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		klog.ErrorS(err, "Cannot read the last good inventory")
	}
	if w.Store.Status().Inventory != nil {
		w.kept = saved
		w.Changed()
		w.Ready()
	}
	w.Source.Run(ctx, func(document []byte, err error) { w.take(ctx, document, err) })
}

const (
	// lookInterval is how often the copy is looked at: without it the next process would take any inventory.
	lookInterval = 5 * time.Minute
	// leaderTime is longer than any process goes on after it was paused and its Lease was lost.
	leaderTime = 2 * time.Minute
	// loadTimeout is that of one attempt to read the copy, and loadRetry is the first pause after one, which doubles up to loadRetryMost.
	loadTimeout, loadRetry, loadRetryMost = 10 * time.Second, 500 * time.Millisecond, 15 * time.Second
)

// load reads the copy of the process before. While the API server does not answer it tries again: a first reading that is compared with no
// copy would be taken whatever is missing in it, and replace the copy.
func (w *Watcher) load(ctx context.Context) (Saved, error) {
	for pause := loadRetry; ; pause = min(2*pause, loadRetryMost) {
		attempt, cancel := context.WithTimeout(ctx, loadTimeout)
		saved, err := w.Copy.Begin(attempt)
		cancel()
		if err == nil || errors.Is(err, errDamaged) || apierrors.IsForbidden(err) {
			return saved, err
		}
		klog.ErrorS(err, "Cannot read the last good inventory; retrying", "retry", pause)
		if !changes.Sleep(ctx, pause) {
			return Saved{}, ctx.Err()
		}
	}
}

// begin gives this process the term after that of the process before.
func (w *Watcher) begin(before Saved, err error) {
	if err == nil || errors.Is(err, errDamaged) {
		w.Store.lead(before.Term + 1)
	}
}

// take offers a reading to the store.
func (w *Watcher) take(ctx context.Context, document []byte, err error) {
	changed, rejection := w.Store.Offer(document, err)
	state := "Confirmed"
	if rejection == nil {
		w.stale, w.want = "", ""
	} else {
		state = w.reject(rejection)
	}
	if changed {
		i := w.Store.Status().Inventory
		klog.InfoS("Inventory read", "serial", i.Metadata.Serial, "machines", len(i.Machines))
		w.Changed()
	}
	w.keep(ctx, w.Store.Saved(), state)
}

// reject tells that a reading was rejected, and returns the state of the copy. The
// words may differ each time, as port numbers do: only a new reason makes a new state.
func (w *Watcher) reject(rejection *Rejection) string {
	w.Rejected(rejection)
	if w.stale != rejection.Reason {
		w.stale, w.want = rejection.Reason, v1alpha1.MachinesStale+rejection.Error()
	}
	return w.want
}

// keep saves what is good, when that or its state has changed.
func (w *Watcher) keep(ctx context.Context, saved Saved, state string) {
	saved.Term = w.Store.Term()
	same := state == w.state && reflect.DeepEqual(saved, w.kept)
	if saved.Document == nil || same && time.Since(w.looked) < lookInterval {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if saved.Term == 0 {
		w.begin(w.Copy.Begin(ctx))
		saved.Term = w.Store.Term()
	}
	if same {
		w.looked = time.Now()
		there, err := w.Copy.Load(ctx)
		if err == nil && equality.Semantic.DeepEqual(there, saved) || err != nil && !errors.Is(err, errDamaged) {
			return
		}
	}
	err := w.Copy.Save(ctx, saved, state)
	if errors.Is(err, errLaterLeader) && w.outlasts() {
		w.begin(w.Copy.Begin(ctx))
		saved.Term = w.Store.Term()
		err = w.Copy.Save(ctx, saved, state)
	}
	if err != nil {
		klog.ErrorS(err, "Failed to save the last good inventory")
		return
	}
	w.kept, w.state, w.looked, w.denied = saved, state, time.Now(), time.Time{}
}

// outlasts reports whether the copy has been that of a later leader for so long that there is none: a process that leads no more ends
// within its Lease. A ConfigMap that was restored from a backup may be of a later term.
func (w *Watcher) outlasts() bool {
	if w.denied.IsZero() {
		w.denied = time.Now()
	}
	return time.Since(w.denied) > leaderTime
}
