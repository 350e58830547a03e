package lbtest

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

// options are those of a run in a world, with short times.
func (w *world) options(only ...string) Options {
	return Options{
		Cluster: w.own(plane.Config), Namespace: w.namespace, Image: "registry.example/ccmadm:v1", Holder: "test", Outside: true, MaxNodes: 2,
		Wait: 20 * time.Second, Timeout: 10 * time.Minute, Requests: 8, Port: 7480, Only: only,
	}
}

// start runs the suite, and keeps what it says.
func (w *world) start(t *testing.T, o Options) (*Report, string, error) {
	t.Helper()
	var mu sync.Mutex
	var said strings.Builder
	o.Progress = func(text string) {
		mu.Lock()
		defer mu.Unlock()
		said.WriteString(text + "\n")
	}
	s, err := newSuite(o)
	if err != nil {
		t.Fatal(err)
	}
	s.clientPort, s.silence = w.port, 3*time.Second
	report, err := s.run(t.Context())
	mu.Lock()
	defer mu.Unlock()
	return report, said.String(), err
}

// verdicts are the results by name; those left out by Only are not in it.
func verdicts(r *Report) map[string]Verdict {
	list := map[string]Verdict{}
	if r == nil {
		return list
	}
	for _, c := range r.Checks {
		list[c.Name] = c.Result
	}
	return list
}

func (w *world) mustBeGone(t *testing.T) {
	t.Helper()
	_, err := w.client.CoreV1().Namespaces().Get(context.WithoutCancel(t.Context()), w.namespace, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("Namespace/%s is there after the run: %v", w.namespace, err)
	}
}

// startControllers starts what removes namespaces, once for all tests.
var startControllers = sync.OnceValues(func() (*manifeststest.Controllers, error) {
	return plane.StartControllers("--controllers=namespace-controller")
})

func controllers(t *testing.T) {
	t.Helper()
	started, err := startControllers()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { started.ShowLog(t) })
}

// TestCluster_Passes: against a load balancer without a fault no check fails, for a user with no more than the permissions of the
// documentation; nothing is left.
func TestCluster_Passes(t *testing.T) {
	user := documentedUser(t)
	for number, nodeIP := range map[int]bool{1: false, 2: true} {
		t.Run(fmt.Sprintf("addresses of Nodes %v", nodeIP), func(t *testing.T) {
			t.Parallel()
			controllers(t)
			w := newWorld(t, number, func(w *world) { w.nodeIP = nodeIP })
			o := w.options()
			o.Cluster = w.own(user)
			report, said, err := w.start(t, o)
			if err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			want := map[string]Verdict{}
			for _, name := range Names() {
				want[name] = Pass
			}
			want["dual-stack"], want["owner-moves"] = Skip, Skip
			if nodeIP {
				want["requested-loadbalancerip"], want["requested-annotation"] = Skip, Skip
			}
			if diff := cmp.Diff(want, verdicts(report)); diff != "" {
				t.Errorf("verdicts (-want +got):\n%s\n%s", diff, said)
			}
			if err := report.Judge(); err != nil {
				t.Error(err)
			}
			if report.Implementation != "MetalLB" {
				t.Errorf("the implementation is %q", report.Implementation)
			}
			w.mustBeGone(t)
			checkFormats(t, report)
		})
	}
}

// checkFormats has each format name each check.
func checkFormats(t *testing.T, r *Report) {
	t.Helper()
	var text, junit bytes.Buffer
	if err := errors.Join(r.WriteTable(&text), r.WriteJUnit(&junit)); err != nil {
		t.Fatal(err)
	}
	object, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Names() {
		for format, data := range map[string]string{"text": text.String(), "json": string(object), "junit": junit.String()} {
			if !strings.Contains(data, name) {
				t.Errorf("%s lacks %s", format, name)
			}
		}
	}
	if err := xml.Unmarshal(junit.Bytes(), new(struct{})); err != nil {
		t.Errorf("junit: %v\n%s", err, junit.String())
	}
}

// documentedUser has the ClusterRole of the documentation's page, and no other permission.
func documentedUser(t *testing.T) *rest.Config {
	t.Helper()
	page, err := os.ReadFile("../../docs/tasks/test-load-balancers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(page), "```yaml\n")
	block, _, _ = strings.Cut(block, "```")
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict([]byte(block), &role); err != nil || !found {
		t.Fatalf("read the ClusterRole of the page: %v", err)
	}
	roles, bindings := plane.Admin(t).RbacV1().ClusterRoles(), plane.Admin(t).RbacV1().ClusterRoleBindings()
	_ = roles.Delete(t.Context(), role.Name, metav1.DeleteOptions{})
	if _, err := roles.Create(t.Context(), &role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name}}
	binding.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}
	binding.Subjects = []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "documented"}}
	if _, err := bindings.Create(t.Context(), binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	user, err := plane.User("documented")
	if err != nil {
		t.Fatal(err)
	}
	return user
}

// TestCluster_Interrupted: the end of the caller's context leaves nothing behind, and the report has what was not done.
func TestCluster_Interrupted(t *testing.T) {
	t.Parallel()
	controllers(t)
	w := newWorld(t, 5, func(w *world) { w.noAddress = true })
	o := w.options("tcp", "udp")
	ctx, cancel := context.WithCancel(t.Context())
	o.Progress = func(text string) {
		if strings.Contains(text, "starting") {
			time.AfterFunc(3*time.Second, cancel)
		}
	}
	s, err := newSuite(o)
	if err != nil {
		t.Fatal(err)
	}
	s.clientPort = w.port
	report, err := s.run(ctx)
	if !errors.Is(err, errStopped) {
		t.Errorf("got %v", err)
	}
	if got := verdicts(report); report == nil || got["tcp"] != Skip || got["udp"] != Skip {
		t.Errorf("got %v", got)
	}
	w.mustBeGone(t)
	timed := w.options("tcp")
	timed.Wait, timed.Timeout = 4*time.Second, 4*time.Second
	timed.Cluster = rest.CopyConfig(timed.Cluster)
	timed.Cluster.QPS, timed.Cluster.Burst = 1, 30 // a limiter of the client would end the run before its time, and without an error
	report, _, err = w.start(t, timed)
	var found *finding.Error
	if !errors.As(err, &found) || found.Code != finding.ExitNotInTime {
		t.Errorf("--timeout ends with %v, and %v", err, report)
	}
	w.mustBeGone(t)
}

// TestCluster_Namespace: a namespace of others is refused and stays, so is one of a run that is under way; what a run has left goes.
func TestCluster_Namespace(t *testing.T) {
	t.Parallel()
	controllers(t)
	w := newWorld(t, 6)
	namespaces := w.client.CoreV1().Namespaces()
	foreign := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	if _, err := namespaces.Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, _, err := w.start(t, w.options("tcp"))
	var refused *finding.Error
	if !errors.As(err, &refused) || refused.Code != finding.ExitRefused {
		t.Errorf("a namespace of others: got %v", err)
	}
	if found, err := namespaces.Get(t.Context(), w.namespace, metav1.GetOptions{}); err != nil || found.DeletionTimestamp != nil {
		t.Fatalf("the namespace of others is gone: %v", err)
	}
	if err := namespaces.Delete(t.Context(), w.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 300 {
		if _, err := namespaces.Get(t.Context(), w.namespace, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}

	killed, err := newSuite(w.options())
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.createNamespace(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := &probe{suite: killed}
	if _, err := p.createService(t.Context(), wanted{}); err != nil {
		t.Fatal(err)
	}
	alive, stop := context.WithCancel(t.Context())
	var renewal sync.WaitGroup
	renewal.Go(func() { killed.renew(alive, func(err error) { t.Errorf("a run under way: %v", err) }) })
	_, _, err = w.start(t, w.options("tcp"))
	if !errors.As(err, &refused) || refused.Code != finding.ExitRefused || !strings.Contains(err.Error(), "under way") {
		t.Errorf("a run under way: got %v", err)
	}
	stop()
	renewal.Wait()
	report, said, err := w.start(t, w.options("tcp"))
	if err != nil || report.Count(Pass) != 1 || !strings.Contains(said, "removing what run "+killed.id+" left") {
		t.Errorf("after a killed run: %v %v\n%s", err, verdicts(report), said)
	}
	w.mustBeGone(t)

	keep := w.options("tcp")
	keep.Keep = true
	if _, _, err := w.start(t, keep); err != nil {
		t.Fatal(err)
	}
	found, err := namespaces.Get(t.Context(), w.namespace, metav1.GetOptions{})
	if err != nil || found.Labels[v1alpha1.LBTestLabel] == "" {
		t.Errorf("--keep: %v", err)
	}
	if report, said, err := w.start(t, w.options("tcp")); err != nil || report.Count(Pass) != 1 {
		t.Errorf("after --keep: %v\n%s", err, said)
	}
	w.mustBeGone(t)
}

// TestCluster_Denied: a user who lacks permissions is told which, and nothing is made.
func TestCluster_Denied(t *testing.T) {
	w := newWorld(t, 7)
	user, err := plane.User("denied")
	if err != nil {
		t.Fatal(err)
	}
	o := w.options()
	o.Cluster = user
	report, _, err := w.start(t, o)
	var found *finding.Error
	if !errors.As(err, &found) || found.Code != finding.ExitPreflight || report != nil {
		t.Fatalf("got %v", err)
	}
	for _, text := range []string{"create namespaces", "get pods/proxy in namespace " + w.namespace} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("got %q, want %q in it", err, text)
		}
	}
	w.mustBeGone(t)
}

// TestCluster_NoImage: pods that do not start are an error that names the image's flag, and leave nothing.
func TestCluster_NoImage(t *testing.T) {
	t.Parallel()
	controllers(t)
	w := newWorld(t, 8, func(w *world) { w.imageMissing = true })
	report, said, err := w.start(t, w.options("tcp"))
	var found *finding.Error
	if !errors.As(err, &found) || found.Code != finding.ExitError || !strings.Contains(found.Hint, "--image") || report != nil {
		t.Errorf("got %v\n%s", err, said)
	}
	w.mustBeGone(t)
}

// TestNames: names are those that users write, and occur once.
func TestNames(t *testing.T) {
	once := map[string]bool{}
	for _, name := range Names() {
		once[name] = true
	}
	if got := slices.Sorted(maps.Keys(once)); len(got) != len(checks()) {
		t.Errorf("names occur twice: %v", Names())
	}
}
