package journal

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

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
	_, err := client.CoordinationV1().Leases(v1alpha1.Namespace).Get(t.Context(), v1alpha1.RunLeaseName, metav1.GetOptions{})
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
	if steps[0].State != Done || steps[0].Undo != step.Undo || steps[1].State != Failed || steps[1].Error != broken.Error() {
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
	if took := time.Since(start); took > 2*renewEvery || !strings.HasPrefix(told, "ccmadm apply on cp1") {
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
		slept.lease.why, slept.lease.ended = nil, make(chan struct{}) // it knows nothing of it
		ctx = context.WithoutCancel(ctx)
		start := time.Now()
		next = open(ctx, t, client, Run{Command: "apply", Machine: "cp2"})
		if waited := time.Since(start); waited < leaseLasts || waited > leaseLasts+5*time.Second {
			t.Errorf("taken after %s, want %s", waited, leaseLasts)
		}
		runs := read(ctx, t, client)
		if len(runs) != 2 || runs[0].State != Begun || runs[0].Steps[0].State != Begun || runs[1].ID != 2 {
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
		case <-time.After(3 * renewEvery):
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

// faults answers 503 to some requests.
type faults struct {
	next http.RoundTripper
	on   *atomic.Bool
	path string
}

func (f faults) RoundTrip(r *http.Request) (*http.Response, error) {
	if !f.on.Load() || !strings.Contains(r.URL.Path, f.path) {
		return f.next.RoundTrip(r)
	}
	return &http.Response{
		StatusCode: http.StatusServiceUnavailable, Body: io.NopCloser(strings.NewReader("no")), Request: r, Header: http.Header{},
	}, nil
}

// An API server that does not answer has no empty journal, and nothing is done that was not written down.
func TestCluster_Journal_WithoutAnAnswer(t *testing.T) {
	fresh(t)
	var on atomic.Bool
	config := rest.CopyConfig(cluster.Config)
	config.QPS = 50
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return faults{next, &on, "/configmaps"} })
	client := kubernetes.NewForConfigOrDie(config)
	j := open(t.Context(), t, client, apply)
	if err := do(j, t, "rbac", nil); err != nil {
		t.Fatal(err)
	}
	on.Store(true)
	short := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		t.Cleanup(cancel)
		return ctx
	}
	if runs, err := Read(short(), client); !apierrors.IsServiceUnavailable(err) || runs != nil {
		t.Errorf("runs are %v, error is %v", runs, err)
	}
	ran := false
	err := j.Do(short(), Step{Name: "addon"}, func(context.Context) error { ran = true; return nil })
	if !apierrors.IsServiceUnavailable(err) || ran {
		t.Errorf("error is %v, step ran: %v", err, ran)
	}
	on.Store(false)
	err = j.Do(t.Context(), Step{Name: "addon"}, func(context.Context) error {
		on.Store(true) // the step restarts the API server
		time.AfterFunc(3*time.Second, func() { on.Store(false) })
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if err := j.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if runs := read(t.Context(), t, client); len(runs) != 1 || len(runs[0].Steps) != 2 || runs[0].State != Done {
		t.Errorf("runs are %+v", runs)
	}
}

func TestCluster_Journal_ThatSomebodyElseWrote(t *testing.T) {
	client := fresh(t)
	maps := client.CoreV1().ConfigMaps(v1alpha1.Namespace)
	for _, tt := range []struct {
		name, wantErr string
		edit          func(*corev1.ConfigMap)
	}{
		{"by hand", "it was edited by hand", func(cm *corev1.ConfigMap) {
			cm.Data["run-000001.yaml"] = strings.Replace(cm.Data["run-000001.yaml"], "DaemonSet", "Deployment", 1)
		}},
		{"a step taken out", "it was edited by hand", func(cm *corev1.ConfigMap) { delete(cm.Data, "run-000002.yaml") }},
		{"no YAML", "line 1", func(cm *corev1.ConfigMap) { cm.Data["run-000001.yaml"] = "{" }},
		{"a field of a newer version", `unknown field "newer"`, func(cm *corev1.ConfigMap) {
			cm.Data["run-000001.yaml"] += "newer: true\n"
			cm.Annotations[v1alpha1.JournalDigestAnnotation] = digest(cm.Data)
		}},
		{"a newer version", "ccmadm.dev/v2", func(cm *corev1.ConfigMap) {
			cm.Data["run-000001.yaml"] = strings.Replace(cm.Data["run-000001.yaml"], v1alpha1.APIVersion, "ccmadm.dev/v2", 1)
			cm.Annotations[v1alpha1.JournalDigestAnnotation] = digest(cm.Data)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			forget(t, client)
			for range 2 {
				if err := open(t.Context(), t, client, apply).Close(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			cm, err := maps.Get(t.Context(), v1alpha1.JournalName, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			tt.edit(cm)
			edited, err := maps.Update(t.Context(), cm, metav1.UpdateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = Open(t.Context(), client, apply)
			refused(t, err, tt.wantErr)
			_, err = Read(t.Context(), client)
			refused(t, err, tt.wantErr)
			after, err := maps.Get(t.Context(), v1alpha1.JournalName, metav1.GetOptions{})
			if err != nil || after.ResourceVersion != edited.ResourceVersion {
				t.Errorf("the journal was written: %v", err)
			}
		})
	}
}

// A journal that is deleted under a run's hands is begun anew with all of the run.
func TestCluster_Journal_ThatIsDeleted(t *testing.T) {
	client := fresh(t)
	j := open(t.Context(), t, client, apply)
	if err := do(j, t, "rbac", nil); err != nil {
		t.Fatal(err)
	}
	err := client.CoreV1().ConfigMaps(v1alpha1.Namespace).Delete(t.Context(), v1alpha1.JournalName, metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(do(j, t, "addon", nil), j.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	if runs := read(t.Context(), t, client); len(runs) != 1 || len(runs[0].Steps) != 2 {
		t.Errorf("runs are %+v", runs)
	}
}

func TestCluster_Journal_IsBounded(t *testing.T) {
	client := fresh(t)
	large := apply
	large.Before = strings.Repeat("x", 60_000)
	for range 6 {
		if err := open(t.Context(), t, client, large).Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	runs := read(t.Context(), t, client)
	if len(runs) != 3 || runs[2].ID != 6 {
		t.Errorf("%d runs, the last is %d; want the newest 3 of 6", len(runs), runs[len(runs)-1].ID)
	}
	j := open(t.Context(), t, client, apply)
	ran := false
	err := j.Do(t.Context(), Step{Name: "addon", Before: strings.Repeat("x", maxSize)}, func(context.Context) error { ran = true; return nil })
	if err == nil || ran || !strings.Contains(err.Error(), "there is room for 500000") {
		t.Errorf("error is %v, step ran: %v", err, ran)
	}
	if err := errors.Join(do(j, t, "addon", nil), j.Close(t.Context())); err != nil {
		t.Error(err)
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
