package journal

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

var apply = Run{Command: "apply", Machine: "cp1", Version: "test", Before: "mode: DaemonSet\n"}

// fresh is a client of a cluster without a journal.
func fresh(t *testing.T) kubernetes.Interface {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(cluster.Config)
	t.Cleanup(func() { forget(t, client) })
	return client
}

func forget(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	err := client.CoreV1().ConfigMaps(v1alpha1.Namespace).Delete(ctx, v1alpha1.JournalName, metav1.DeleteOptions{})
	left := client.CoordinationV1().Leases(v1alpha1.Namespace).Delete(ctx, v1alpha1.RunLeaseName, metav1.DeleteOptions{})
	for _, err := range []error{err, left} {
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
}

func open(ctx context.Context, t *testing.T, client kubernetes.Interface, run Run) *Journal {
	t.Helper()
	j, err := Open(ctx, client, run)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func read(ctx context.Context, t *testing.T, client kubernetes.Interface) []Run {
	t.Helper()
	runs, err := Read(ctx, client)
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

func do(j *Journal, t *testing.T, name string, err error) error {
	return j.Do(t.Context(), Step{Name: name}, func(context.Context) error { return err })
}

// refused expects exit status 5, and words.
func refused(t *testing.T, err error, words string) {
	t.Helper()
	var known *finding.Error
	if !errors.As(err, &known) || known.Code != finding.ExitRefused || !strings.Contains(err.Error(), words) {
		t.Errorf("error is %v, want one that refuses, with %q", err, words)
	}
}

func TestCluster_Journal_OfTwoRuns(t *testing.T) {
	client := fresh(t)
	if runs := read(t.Context(), t, client); len(runs) != 0 {
		t.Fatalf("%d runs before the first", len(runs))
	}
	j := open(t.Context(), t, client, apply)
	step := Step{Name: "addon", Node: "cp1", What: "run it", Before: "a", After: "b", Undo: "ccmadm rollback 1"}
	if err := j.Do(t.Context(), step, func(ctx context.Context) error {
		runs := read(ctx, t, client)
		if len(runs) != 1 || len(runs[0].Steps) != 1 || runs[0].Steps[0].State != Begun || runs[0].Steps[0].Before != "a" {
			t.Errorf("while it runs, the journal says %+v", runs)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("it is broken")
	if err := do(j, t, "rollout", broken); !errors.Is(err, broken) {
		t.Errorf("error is %v", err)
	}
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	leases := client.CoordinationV1().Leases(v1alpha1.Namespace)
	_, err := leases.Get(t.Context(), v1alpha1.RunLeaseName, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the Lease of a run that has ended: %v", err)
	}
	second := open(t.Context(), t, client, Run{Command: "rollback", Machine: "cp2"})
	if err := second.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	runs := read(t.Context(), t, client)
	if len(runs) != 2 || runs[0].ID != 1 || runs[1].ID != 2 || runs[0].State != Failed || runs[1].State != Done ||
		runs[0].Before != apply.Before || runs[0].Ended == nil {
		t.Fatalf("runs are %+v", runs)
	}
	steps := runs[0].Steps
	if steps[0].State != Done || steps[0].Undo != step.Undo || steps[1].State != Failed || steps[1].Error == "" {
		t.Errorf("steps are %+v", steps)
	}
}

func TestCluster_Journal_OneRunAtATime(t *testing.T) {
	client := fresh(t)
	j := open(t.Context(), t, client, apply)
	start, told := time.Now(), ""
	second := Run{Command: "apply", Machine: "cp2", Waiting: func(holder string) { told = holder }}
	_, err := Open(t.Context(), client, second)
	refused(t, err, "ccmadm apply on cp1, process ")
	if took := time.Since(start); took >= LeaseLasts || !strings.HasPrefix(told, "ccmadm apply on cp1") {
		t.Errorf("refused after %s, told of %q", took, told)
	}
	if err := do(j, t, "addon", nil); err != nil {
		t.Error(err)
	}
	if err := j.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if runs := read(t.Context(), t, client); len(runs) != 1 || runs[0].State != Done {
		t.Errorf("runs are %+v", runs)
	}
}

// A run that was killed leaves its Lease. The next one waits until it is old, and the former one, should it only have
// slept, does nothing more.
func TestCluster_Journal_AfterARunThatWasKilled(t *testing.T) {
	client := fresh(t)
	slept := open(t.Context(), t, client, apply)
	var next *Journal
	err := slept.Do(t.Context(), Step{Name: "addon"}, func(ctx context.Context) error {
		slept.lease.end(errors.New("killed"))
		<-slept.lease.done
		<-ctx.Done()                                                  // nobody looks at ended any more
		slept.lease.why, slept.lease.ended = nil, make(chan struct{}) // it knows nothing of it
		ctx = context.WithoutCancel(ctx)
		start := time.Now()
		next = open(ctx, t, client, Run{Command: "apply", Machine: "cp2"})
		if waited := time.Since(start); waited < LeaseLasts || waited > LeaseLasts+time.Minute {
			t.Errorf("taken after %s, want %s", waited, LeaseLasts)
		}
		runs := read(ctx, t, client)
		if len(runs) != 2 || runs[0].State != CutShort || runs[0].Steps[0].State != CutShort || runs[1].ID != 2 ||
			runs[1].State != Begun {
			t.Errorf("runs are %+v", runs)
		}
		slept.lease.note(slept.lease.live) // as if it had slept behind its last look
		if err := slept.change(ctx, func(r *Run) { r.Before = "nothing" }); err == nil {
			t.Error("a run writes into the journal of another")
		}
		return nil
	})
	refused(t, err, "ccmadm apply on cp2")
	ran := false
	err = slept.Do(t.Context(), Step{Name: "record"}, func(context.Context) error { ran = true; return nil })
	refused(t, err, "ccmadm apply on cp2")
	if ran {
		t.Error("a step runs that is in no journal")
	}
	if runs := read(t.Context(), t, client); len(runs) != 2 || runs[0].Before != apply.Before || len(runs[0].Steps) != 1 {
		t.Errorf("runs are %+v", runs)
	}
	if err := next.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A Lease that is somebody else's ends the step that is under way.
func TestCluster_Journal_ALeaseThatIsLost(t *testing.T) {
	client := fresh(t)
	j := open(t.Context(), t, client, apply)
	err := j.Do(t.Context(), Step{Name: "addon"}, func(ctx context.Context) error {
		err := client.CoordinationV1().Leases(v1alpha1.Namespace).Delete(ctx, v1alpha1.RunLeaseName, metav1.DeleteOptions{})
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(4 * renewEvery): // less than a Lease lasts
			return errors.New("it goes on")
		}
	})
	if !isLost(err) {
		t.Errorf("error is %v", err)
	}
	if err := j.Close(t.Context()); err == nil {
		t.Error("a run that lost its Lease has ended well")
	}
}

// Machines may be worked on at the same time.
func TestCluster_Journal_OfStepsAtATime(t *testing.T) {
	client := fresh(t)
	j := open(t.Context(), t, client, apply)
	var all errgroup.Group
	for range 8 {
		all.Go(func() error { return do(j, t, "kubelet", nil) })
	}
	if err := errors.Join(all.Wait(), j.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	if runs := read(t.Context(), t, client); len(runs[0].Steps) != 8 || runs[0].State != Done {
		t.Errorf("runs are %+v", runs)
	}
}
