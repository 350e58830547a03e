package runlease

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

var plane *manifeststest.ControlPlane

func TestMain(m *testing.M) { os.Exit(manifeststest.Main(m, &plane)) }

// lasting is how long Leases of these tests last: 5 s, so that they are renewed each second.
const lasting = 5 * time.Second

// between is a way to the API server on which something goes wrong.
type between func(next http.RoundTripper, r *http.Request) (*http.Response, error)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func unavailable(r *http.Request) *http.Response {
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: io.NopCloser(strings.NewReader("no")), Header: http.Header{}, Request: r}
}

// of is the Lease of a run with an id. It has the name of the test, and Ask asks until there is an answer.
func of(t *testing.T, id, holder string, fault between) *Lease {
	t.Helper()
	config := rest.CopyConfig(plane.Config)
	config.QPS = -1
	if fault != nil {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) { return fault(next, r) })
		})
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.ReplaceAll(strings.ToLower(t.Name()), "_", "-")
	l := &Lease{
		Client: client, Namespace: "default", Name: name, Holder: holder, Labels: map[string]string{"run": id}, Lasts: lasting,
		Refuse: func(holder string) error { return heldError(holder) },
	}
	l.Ask = func(ctx context.Context, request func(context.Context) error) (err error) {
		for ctx.Err() == nil {
			if err = request(ctx); err == nil || apierrors.IsForbidden(err) {
				return err
			}
			time.Sleep(100 * time.Millisecond)
		}
		return err
	}
	t.Cleanup(func() {
		err := plane.Admin(t).CoordinationV1().Leases("default").Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	return l
}

func take(t *testing.T, l *Lease) *coordinationv1.Lease {
	t.Helper()
	live, err := l.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return live
}

// renew renews in the background; what comes is the end of that, and stop ends it.
func renew(t *testing.T, l *Lease, live *coordinationv1.Lease) (ended <-chan error, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- l.Renew(ctx, live) }()
	return result, cancel
}

// renewUntilLost is the end of renewals of a run that does not end by itself.
func renewUntilLost(t *testing.T, l *Lease, live *coordinationv1.Lease) error {
	ctx, cancel := context.WithTimeout(t.Context(), lasting)
	defer cancel()
	return l.Renew(ctx, live)
}

// heldError is that of a Lease whose run is under way.
type heldError string

func (e heldError) Error() string { return "held by " + string(e) }

func expectHeld(t *testing.T, err error, holder string) {
	t.Helper()
	if !errors.Is(err, heldError(holder)) {
		t.Errorf("got %v, want a Lease held by %s", err, holder)
	}
}

// like is a Lease that looks the same.
func like(l *coordinationv1.Lease) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: l.Name, Labels: l.Labels}, Spec: l.Spec}
}

// current is the Lease as it is, an empty one where there is none.
func current(t *testing.T, l *Lease) *coordinationv1.Lease {
	t.Helper()
	found, err := plane.Admin(t).CoordinationV1().Leases("default").Get(t.Context(), l.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return &coordinationv1.Lease{}
	}
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestCluster_TwoAtOnce: of runs that begin at the same time exactly one has the Lease, and the others name it; so it is with the Lease
// of a killed run.
func TestCluster_TwoAtOnce(t *testing.T) {
	for _, left := range []bool{false, true} {
		if left {
			take(t, of(t, "killed", "killed", nil))
		}
		type result struct {
			run *Lease
			err error
		}
		results := make(chan result)
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for _, id := range []string{"a", "b", "c"} {
			l := of(t, id, "of "+id, nil)
			all.Go(func() {
				live, err := l.Take(ctx)
				results <- result{l, err}
				if err != nil {
					return
				}
				if err := l.Renew(ctx, live); err != nil {
					t.Errorf("a killed run was there: %v, its successor lost the Lease: %v", left, err)
				}
			})
		}
		var won *Lease
		var refused []error
		for range 3 {
			switch r := <-results; {
			case r.err != nil:
				refused = append(refused, r.err)
			case won != nil:
				t.Errorf("both %s and %s have the Lease", won.Holder, r.run.Holder)
			default:
				won = r.run
			}
		}
		stop()
		all.Wait()
		if won == nil || len(refused) != 2 {
			t.Fatalf("a killed run was there: %v, %d were refused: %v", left, len(refused), refused)
		}
		for _, err := range refused {
			expectHeld(t, err, won.Holder)
		}
		if err := won.Release(t.Context()); err != nil || current(t, won).UID != "" {
			t.Errorf("released: %v", err)
		}
	}
}

// TestCluster_Killed: the Lease of a killed run is taken once it was not renewed for as long as it lasts, not before; the killed run,
// should it only have been stopped, sees that it lost the Lease, and releases nothing.
func TestCluster_Killed(t *testing.T) {
	stopped, next := of(t, "stopped", "first", nil), of(t, "next", "second", nil)
	live := take(t, stopped)
	told := ""
	next.Waiting = func(holder string) { told = holder }
	began := time.Now()
	taken := take(t, next)
	if took := time.Since(began); took < lasting || took > lasting+time.Minute || told != "first" {
		t.Errorf("taken after %s, waited for %q", took, told)
	}
	if taken.UID != live.UID || taken.Labels["run"] != "next" || *taken.Spec.HolderIdentity != "second" {
		t.Errorf("got %+v", taken)
	}
	err := renewUntilLost(t, stopped, live)
	if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "second holds Lease/default/") {
		t.Errorf("the stopped run: got %v", err)
	}
	if err := stopped.Release(t.Context()); err != nil || !Unchanged(taken, current(t, next)) {
		t.Errorf("the stopped run wrote: %v, %+v", err, current(t, next))
	}
}

// TestCluster_SameHolder: a second run of the same user is another run: it is refused as long as the first renews the Lease.
func TestCluster_SameHolder(t *testing.T) {
	first, second := of(t, "1", "a user", nil), of(t, "2", "a user", nil)
	ended, stop := renew(t, first, take(t, first))
	began := time.Now()
	_, err := second.Take(t.Context())
	expectHeld(t, err, "a user")
	if took := time.Since(began); took > 3*lasting {
		t.Errorf("refused after %s", took)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the first: %v", err)
	}
	if err := errors.Join(second.Release(t.Context()), first.Release(t.Context())); err != nil || current(t, first).UID != "" {
		t.Errorf("release: %v, %+v", err, current(t, first))
	}
	take(t, second)
}

// TestCluster_Unavailable: an API server that answers 503 for longer than the Lease lasts, or whose answers are lost, ends no run: the
// Lease is renewed again afterwards.
func TestCluster_Unavailable(t *testing.T) {
	var down, lose atomic.Bool
	var refused, lost atomic.Int32
	l := of(t, "1", "a user", func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if down.Load() {
			refused.Add(1)
			return unavailable(r), nil
		}
		answer, err := next.RoundTrip(r)
		if lose.Load() && r.Method == http.MethodPut && err == nil {
			lost.Add(1)
			_ = answer.Body.Close()
			return nil, errors.New("the answer is lost")
		}
		return answer, err
	})
	ended, stop := renew(t, l, take(t, l))
	for _, fault := range []*atomic.Bool{&down, &lose} {
		fault.Store(true)
		time.Sleep(lasting + time.Second)
		fault.Store(false)
		before := current(t, l)
		for began := time.Now(); Unchanged(before, current(t, l)); time.Sleep(100 * time.Millisecond) {
			if time.Since(began) > time.Minute {
				t.Fatal("the Lease is not renewed any more")
			}
		}
	}
	stop()
	if err := <-ended; err != nil || refused.Load() < 3 || lost.Load() < 3 {
		t.Errorf("got %v; %d requests were refused, %d answers lost", err, refused.Load(), lost.Load())
	}
}

// TestCluster_Deleted: a run whose Lease is deleted ends, also where one that looks the same is made in its place.
func TestCluster_Deleted(t *testing.T) {
	for _, again := range []bool{false, true} {
		l := of(t, "1", "a user", nil)
		live := take(t, l)
		leases := plane.Admin(t).CoordinationV1().Leases("default")
		if err := leases.Delete(t.Context(), live.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		made := &coordinationv1.Lease{}
		if again {
			var err error
			if made, err = leases.Create(t.Context(), like(live), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := renewUntilLost(t, l, live); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "was deleted") {
			t.Errorf("made again: %v: got %v", again, err)
		}
		if !Unchanged(made, current(t, l)) {
			t.Errorf("made again: %v: it was written", again)
		}
		take(t, l)
	}
}

// TestCluster_Watch: a Lease that appears is that of a run under way. Time without an answer does not make a run dead; a Lease that is
// released meanwhile is taken.
func TestCluster_Watch(t *testing.T) {
	var down atomic.Bool
	l, other := of(t, "1", "a user", func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if down.Load() {
			return unavailable(r), nil
		}
		return next.RoundTrip(r)
	}), of(t, "2", "another", nil)
	if found, alive, err := l.Watch(t.Context()); found.UID != "" || alive || err != nil {
		t.Errorf("no Lease: got %+v, %v, %v", found, alive, err)
	}
	time.AfterFunc(2*time.Second, func() {
		if _, err := other.Take(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if found, alive, err := l.Watch(t.Context()); Holder(found) != "another" || !alive || err != nil {
		t.Errorf("a Lease that appears: got %+v, %v, %v", found, alive, err)
	}
	began := time.Now()
	time.AfterFunc(time.Second/2, func() { down.Store(true) })
	time.AfterFunc(lasting+time.Second, func() { down.Store(false) })
	if found, alive, err := l.Watch(t.Context()); alive || err != nil || Holder(found) != "another" || time.Since(began) < 2*lasting {
		t.Errorf("without an answer: got %+v, %v, %v after %s", found, alive, err, time.Since(began))
	}
	time.AfterFunc(2*time.Second, func() {
		if err := other.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
	l.Lasts, began = 6*lasting, time.Now() // so long it would wait for one that is not released
	if live := take(t, l); !l.owns(live) || time.Since(began) > 5*lasting {
		t.Errorf("released: got %+v after %s", live, time.Since(began))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if live, err := other.Take(ctx); live != nil || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "wait for Lease/default/") {
		t.Errorf("stopped: got %+v, %v", live, err)
	}
}

// TestCluster_LostAnswer: a Lease whose first answer was lost is this run's, and is not waited for.
func TestCluster_LostAnswer(t *testing.T) {
	var lost atomic.Bool
	l := of(t, "1", "a user", func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(r)
		if r.Method == http.MethodPost && err == nil && lost.CompareAndSwap(false, true) {
			_ = answer.Body.Close()
			return nil, errors.New("the answer is lost")
		}
		return answer, err
	})
	began := time.Now()
	if live := take(t, l); !l.owns(live) || !lost.Load() || time.Since(began) > lasting {
		t.Errorf("got %+v after %s; an answer was lost: %v", live, time.Since(began), lost.Load())
	}
}
