package inpod

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/rehearsal"
	"github.com/ccmadm/ccmadm/templates"
)

// TestCluster_Leftovers: what a killed run has left goes with the next one; a run that is under way stays whole, and
// so does an object that only has a copy of the label.
func TestCluster_Leftovers(t *testing.T) {
	runs := map[string]*run{}
	for _, name := range []string{"dead", "alive"} {
		r, err := newRun(options(t, "/bin/ccm"))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.render(); err != nil {
			t.Fatal(err)
		}
		if err := r.create(t.Context()); err != nil {
			t.Fatal(err)
		}
		runs[name] = r
	}
	dead, alive := runs["dead"], runs["alive"]
	copied := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "copied"}}
	copied.Labels = map[string]string{v1alpha1.RehearsalLabel: dead.name}
	roles := plane.Admin(t).RbacV1().ClusterRoles()
	if _, err := roles.Create(t.Context(), copied, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		removed := roles.Delete(ctx, "copied", metav1.DeleteOptions{})
		if err := errors.Join(alive.remove(ctx, alive.name), removed); err != nil {
			t.Error(err)
		}
	})
	go alive.renew(t.Context())
	next, err := newRun(options(t, "/bin/ccm"))
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	next.Task.Progress = func(text string) { said = append(said, text) }
	if err := next.removeLeftovers(t.Context()); err != nil {
		t.Fatal(err)
	}
	of := map[string]int{}
	for _, name := range left(t) {
		for key, r := range runs {
			if strings.Contains(name, r.name) {
				of[key]++
			}
		}
	}
	if want := fmt.Sprint(map[string]int{"alive": len(alive.objects)}); fmt.Sprint(of) != want {
		t.Errorf("got %v, want %s", of, want)
	}
	if !strings.Contains(strings.Join(left(t), " "), "clusterroles//copied") {
		t.Error("a copied label cost an object")
	}
	want := []string{alive.name + " is under way, by test", "removing " + dead.name + ", left by test"}
	for _, text := range want {
		if !strings.Contains(strings.Join(said, "\n"), text) {
			t.Errorf("said %q, want %q", said, text)
		}
	}
}

// TestCluster_RemovesAllKinds: whatever the profile, no kind of object is made that is not removed.
func TestCluster_RemovesAllKinds(t *testing.T) {
	known := map[string]bool{}
	for _, k := range kinds() {
		known[k.Resource] = true
	}
	for _, name := range templates.Names() {
		p, err := templates.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		o := options(t, "/bin/ccm")
		o.Profile, o.Task = p, rehearsal.Options{}
		r, err := newRun(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.render(); err != nil {
			t.Fatal(err)
		}
		if len(r.objects) == 0 {
			t.Errorf("%s has no objects", name)
		}
		for _, o := range r.objects {
			resource := strings.ToLower(o.GetKind())
			if !known[resource+"s"] && !known[strings.TrimSuffix(resource, "y")+"ies"] {
				t.Errorf("%s has a %s, which is not removed", name, o.GetKind())
			}
		}
	}
}

// TestCluster_Lost: a run that another one took for dead ends and says so: that one removes what the pod needs.
func TestCluster_Lost(t *testing.T) {
	client := plane.Admin(t)
	k := &kubelet{status: running}
	k.log = func(ctx context.Context, _ io.Writer, pod *corev1.Pod) {
		if err := client.CoordinationV1().Leases(pod.Namespace).Delete(ctx, pod.Namespace, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		<-ctx.Done() // the pod goes on
	}
	k.start(t)
	report, err := Run(t.Context(), options(t, "/bin/ccm"))
	var found *finding.Error
	if report != nil || !errors.As(err, &found) || found.Hint == "" || !strings.Contains(err.Error(), "was deleted; another run may be under way") {
		t.Errorf("got %+v, %v", report, err)
	}
	if names := left(t); len(names) > 0 {
		t.Errorf("left behind: %v", names)
	}
}
