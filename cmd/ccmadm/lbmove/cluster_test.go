package lbmove

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/balancertest"
)

// served is a real API server with two Services, and a manager and an agent that can be stopped.
type served struct{ *balancertest.Cluster }

func serve(t *testing.T, old, next string) *served {
	t.Helper()
	s := &served{balancertest.New(t, plane.Config, "../../../manifests/crds")}
	pool := &v1alpha1.AddressPool{
		ObjectMeta: metav1.ObjectMeta{Name: "lan"}, Spec: v1alpha1.AddressPoolSpec{Ranges: []string{"192.0.2.50-192.0.2.59"}},
	}
	if _, err := s.Objects.AddressPools.Create(t.Context(), pool, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Lead()
	t.Cleanup(func() { s.clean(old, next) })
	for _, name := range []string{old, next} {
		s.create(name)
	}
	return s
}

// clean removes what a test made, with no manager.
func (s *served) clean(names ...string) {
	s.End()
	ctx := context.WithoutCancel(s.Context())
	for _, name := range names {
		n := split(name)
		s.DeleteService(n.Namespace, n.Name)
	}
	claims, _ := s.Client.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{LabelSelector: "ipaddress.kubernetes.io/managed-by=" + v1alpha1.ClaimManager})
	for _, claim := range claims.Items {
		_ = s.Client.NetworkingV1().IPAddresses().Delete(ctx, claim.Name, metav1.DeleteOptions{})
	}
	_ = s.Objects.AddressPools.Delete(ctx, "lan", metav1.DeleteOptions{})
	_ = s.Objects.NodeAgents.Delete(ctx, balancertest.Agent, metav1.DeleteOptions{})
}

func split(name string) types.NamespacedName {
	namespace, short, _ := strings.Cut(name, "/")
	return types.NamespacedName{Namespace: namespace, Name: short}
}

// create makes a Service with a ready endpoint, and waits for its address.
func (s *served) create(name string) {
	s.Helper()
	n := split(name)
	_, _ = s.Client.CoreV1().Namespaces().Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.Namespace}}, metav1.CreateOptions{})
	object := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 443, Protocol: corev1.ProtocolTCP}},
		},
	}
	if _, err := s.Client.CoreV1().Services(n.Namespace).Create(s.Context(), object, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{discoveryv1.LabelServiceName: n.Name}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.1.2"}}},
	}
	if _, err := s.Client.DiscoveryV1().EndpointSlices(n.Namespace).Create(s.Context(), slice, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	for began := time.Now(); s.address(name) == ""; time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			s.Fatalf("Service/%s has no address", name)
		}
	}
}

func (s *served) get(name string) *corev1.Service {
	s.Helper()
	n := split(name)
	object, err := s.Client.CoreV1().Services(n.Namespace).Get(s.Context(), n.Name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return object
}

func (s *served) patch(name, patch string) {
	s.Helper()
	n := split(name)
	_, err := s.Client.CoreV1().Services(n.Namespace).Patch(s.Context(), n.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		s.Fatal(err)
	}
}

func (s *served) address(name string) string { return join(allocator.Earlier(s.get(name), true)) }

// run runs the command against a cluster, and returns its exit status and what it printed.
func (s *served) run(config *rest.Config, line string) (int, string) {
	s.Helper()
	var out bytes.Buffer
	cmd := NewCommand(workflow.Streams{Out: &out, Err: &out}, "", func(workflow.Streams) (*rest.Config, error) { return config, nil }, nil)
	cmd.SetArgs(strings.Fields(strings.TrimPrefix(line, "ccmadm lb move")))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(s.Context())
	if err == nil {
		return 0, out.String()
	}
	code := finding.ExitError
	var known *finding.Error
	if errors.As(err, &known) {
		code = known.Code
	}
	return int(code), out.String() + "error: " + err.Error()
}

// The command moves an address and back; a second run has nothing to do, and --dry-run changes nothing.
func TestCluster_Move(t *testing.T) {
	s := serve(t, "cli-a/old", "cli-b/new")
	moved := s.address("cli-a/old")
	if code, out := s.run(s.Config, "ccmadm lb move cli-a/old cli-b/new --dry-run"); code != 0 || !strings.Contains(out, "Nothing was changed.") {
		t.Errorf("dry run: %d %s", code, out)
	}
	if got := s.get("cli-a/old").Annotations[v1alpha1.MoveToAnnotation]; got != "" || s.address("cli-a/old") != moved {
		t.Errorf("a dry run sets %q", got)
	}
	code, out := s.run(s.Config, "ccmadm lb move cli-a/old cli-b/new")
	if code != 0 || s.address("cli-b/new") != moved || s.address("cli-a/old") == moved {
		t.Fatalf("exit status %d, old %s, new %s: %s", code, s.address("cli-a/old"), s.address("cli-b/new"), out)
	}
	t.Log(out)
	code, out = s.run(s.Config, "ccmadm lb move cli-a/old cli-b/new")
	if code != 0 || out != moved+" has moved from Service/cli-a/old to Service/cli-b/new: nothing to do\n" {
		t.Errorf("again: %d %s", code, out)
	}
	code, out = s.run(s.Config, "ccmadm lb move cli-b/new cli-a/old -o json")
	if code != 0 || s.address("cli-a/old") != moved || !strings.Contains(out, `"state": "Moved"`) {
		t.Errorf("back: %d, %s has it: %s", code, s.address("cli-a/old"), out)
	}
	for _, name := range []string{"cli-a/old", "cli-b/new"} { // a ClusterIP may not have such a list
		s.patch(name, `{"spec":{"loadBalancerSourceRanges":["10.0.0.0/8"]}}`)
	}
	code, out = s.run(s.Config, "ccmadm lb move cli-a/old cli-b/new --release-old")
	if old := s.get("cli-a/old"); code != 0 || old.Spec.Type != corev1.ServiceTypeClusterIP || s.address("cli-b/new") != moved {
		t.Errorf("--release-old: %d, OLD is %s: %s", code, old.Spec.Type, out)
	}
	if code, out = s.run(s.Config, "ccmadm lb move cli-a/old cli-b/new --release-old"); code != 0 || !strings.Contains(out, "has moved") ||
		!strings.Contains(out, "nothing to do") {
		t.Errorf("again: %d %s", code, out)
	}
	if code, out = s.run(s.Config, "ccmadm lb move cli-b/new cli-a/old"); code != 3 || !strings.Contains(out, "is of type ClusterIP, not LoadBalancer") {
		t.Errorf("back to a ClusterIP: %d %s", code, out)
	}
}

// OLD is released after its move, in a run of its own that says what it would do. Who has moved the address back meanwhile keeps it.
func TestCluster_Move_ReleasedLater(t *testing.T) {
	s := serve(t, "rel-a/old", "rel-b/new")
	moved := s.address("rel-a/old")
	if code, out := s.run(s.Config, "ccmadm lb move rel-a/old rel-b/new"); code != 0 {
		t.Fatalf("%d %s", code, out)
	}
	for began := time.Now(); s.address("rel-a/old") == ""; time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("OLD gets no other address")
		}
	}
	code, out := s.run(s.Config, "ccmadm lb move rel-a/old rel-b/new --release-old --dry-run")
	if code != 0 || !strings.Contains(out, "Service/rel-a/old would become type ClusterIP, and lose "+s.address("rel-a/old")) ||
		strings.Contains(out, "nothing to do") || s.get("rel-a/old").Spec.Type != corev1.ServiceTypeLoadBalancer {
		t.Errorf("dry run: %d %s", code, out)
	}
	// Another user moves it back between the look and the write.
	back := rest.CopyConfig(s.Config)
	back.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return released{next, sync.OnceFunc(func() {
			if code, out := s.run(s.Config, "ccmadm lb move rel-b/new rel-a/old"); code != 0 {
				t.Errorf("back: %d %s", code, out)
			}
		})}
	})
	code, out = s.run(back, "ccmadm lb move rel-a/old rel-b/new --release-old")
	if code != 1 || !strings.Contains(out, moved+" is no longer of Service/rel-b/new, so Service/rel-a/old was not changed") {
		t.Errorf("exit status %d: %s", code, out)
	}
	if old := s.get("rel-a/old"); old.Spec.Type != corev1.ServiceTypeLoadBalancer || s.address("rel-a/old") != moved {
		t.Errorf("the owner is of type %s, and has %s", old.Spec.Type, s.address("rel-a/old"))
	}
}

// released changes the cluster before OLD loses its type.
type released struct {
	http.RoundTripper
	change func()
}

func (r released) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodPatch && strings.HasSuffix(request.URL.Path, "/old") && request.URL.Query().Get("dryRun") == "" {
		r.change()
	}
	return r.RoundTripper.RoundTrip(request)
}

// Without a manager the command says so in time. With the next one the move is done, and the same command goes on.
func TestCluster_MoveWithoutManager(t *testing.T) {
	s := serve(t, "late-a/old", "late-b/new")
	moved := s.address("late-a/old")
	s.End()
	code, out := s.run(s.Config, "ccmadm lb move late-a/old late-b/new --timeout 4s")
	if code != 4 || !strings.Contains(out, "not done after 4s: the cloud-controller-manager has said nothing about it") {
		t.Errorf("exit status %d: %s", code, out)
	}
	if code, out = s.run(s.Config, "ccmadm lb move late-a/old late-b/new --dry-run"); code != 0 || !strings.Contains(out, "is on its way") {
		t.Errorf("dry run: %d %s", code, out)
	}
	s.Lead()
	if code, out = s.run(s.Config, "ccmadm lb move late-a/old late-b/new"); code != 0 || s.address("late-b/new") != moved {
		t.Errorf("exit status %d, NEW has %s: %s", code, s.address("late-b/new"), out)
	}
}

// contested changes NEW at each write to it, and takes its endpoints: the first Service is annotated by then.
type contested struct {
	http.RoundTripper
	change func()
}

func (c contested) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/new") && r.URL.Query().Get("dryRun") == "" {
		c.change()
	}
	return c.RoundTripper.RoundTrip(r)
}

// A plan that is no longer right after the first annotation says that this was set, and how to take it back.
func TestCluster_MoveContested(t *testing.T) {
	s := serve(t, "race-a/old", "race-b/new")
	config := rest.CopyConfig(s.Config)
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return contested{rt, func() {
			s.patch("race-b/new", `{"metadata":{"labels":{"changed":"yes"}}}`)
			_ = s.Client.DiscoveryV1().EndpointSlices("race-b").Delete(t.Context(), "new", metav1.DeleteOptions{})
		}}
	})
	code, out := s.run(config, "ccmadm lb move race-a/old race-b/new")
	if code != 3 || strings.Contains(out, "nothing was changed") || !strings.Contains(out, "after annotation ccmadm.dev/move-to was set on Service/race-a/old") {
		t.Errorf("exit status %d: %s", code, out)
	}
}

// flaky answers each second write with 429 or 503.
type flaky struct {
	http.RoundTripper
	count *atomic.Int32
}

func (f flaky) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPatch || f.count.Add(1)%2 == 0 {
		return f.RoundTripper.RoundTrip(r)
	}
	code, body := http.StatusServiceUnavailable, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503}`
	if f.count.Load()%4 == 1 {
		code, body = http.StatusTooManyRequests, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429}`
	}
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}, nil
}

// An API server that is overloaded is asked again.
func TestCluster_MoveOverloaded(t *testing.T) {
	s := serve(t, "busy-a/old", "busy-b/new")
	moved := s.address("busy-a/old")
	var count atomic.Int32
	config := rest.CopyConfig(s.Config)
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return flaky{rt, &count} })
	if code, out := s.run(config, "ccmadm lb move busy-a/old busy-b/new"); code != 0 || s.address("busy-b/new") != moved || count.Load() < 4 {
		t.Errorf("exit status %d after %d answers: %s", code, count.Load(), out)
	}
}

// A tenant who may edit the Services of NEW's namespace, and read the cluster, changes nothing.
func TestCluster_MoveByTenant(t *testing.T) {
	s := serve(t, "rbac-a/old", "rbac-b/new")
	moved := s.address("rbac-a/old")
	tenant := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "tenant"}}
	reads := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "reads-all"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}}},
	}
	_, first := s.Client.RbacV1().ClusterRoles().Create(t.Context(), reads, metav1.CreateOptions{})
	_, second := s.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "tenant"}, Subjects: tenant,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reads-all"},
	}, metav1.CreateOptions{})
	_, third := s.Client.RbacV1().RoleBindings("rbac-b").Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "tenant"}, Subjects: tenant,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
	}, metav1.CreateOptions{})
	if err := errors.Join(first, second, third); err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(s.Config)
	config.Impersonate.UserName = "tenant"
	code, out := s.run(config, "ccmadm lb move rbac-a/old rbac-b/new")
	if code != 1 || !strings.Contains(out, "forbidden") || !strings.Contains(out, "nothing was changed") {
		t.Errorf("exit status %d: %s", code, out)
	}
	if got := s.get("rbac-b/new").Annotations[v1alpha1.AddressesAnnotation]; got != "" || s.address("rbac-a/old") != moved {
		t.Errorf("NEW requests %q, and OLD has %s", got, s.address("rbac-a/old"))
	}
	code, out = s.run(config, "ccmadm lb move rbac-b/new rbac-a/old") // nor can it push its own address onto another's Service
	if code != 1 || !strings.Contains(out, "nothing was changed") || s.get("rbac-b/new").Annotations[v1alpha1.MoveToAnnotation] != "" {
		t.Errorf("exit status %d: %s", code, out)
	}
}
