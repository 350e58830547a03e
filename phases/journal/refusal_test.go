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

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

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
		StatusCode: http.StatusServiceUnavailable, Body: io.NopCloser(strings.NewReader("no")), Header: http.Header{},
		Request: r,
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
			cm.Annotations[v1alpha1.JournalDigestAnnotation] = documentsOf(cm).digest()
		}},
		{"a newer version", "ccmadm.dev/v2", func(cm *corev1.ConfigMap) {
			cm.Data["run-000001.yaml"] = strings.Replace(cm.Data["run-000001.yaml"], v1alpha1.APIVersion, "ccmadm.dev/v2", 1)
			cm.Annotations[v1alpha1.JournalDigestAnnotation] = documentsOf(cm).digest()
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
	tooLarge := Step{Name: "addon", Before: noise(maxSize)}
	err := j.Do(t.Context(), tooLarge, func(context.Context) error { ran = true; return nil })
	if err == nil || ran || !strings.Contains(err.Error(), "there is room for 500000") {
		t.Errorf("error is %v, step ran: %v", err, ran)
	}
	if err := errors.Join(do(j, t, "addon", nil), j.Close(t.Context())); err != nil {
		t.Error(err)
	}
}
