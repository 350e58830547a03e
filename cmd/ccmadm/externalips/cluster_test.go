package externalips

import (
	"bytes"
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/network"
	"github.com/ccmadm/ccmadm/manifests/manifeststest"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/balancer/balancertest"
)

// served is a cluster with the load balancers of provider onprem, and a Node whose agent announces what is claimed.
type served struct {
	*balancertest.Cluster
	kubeconfig string
}

func serve(t *testing.T) *served {
	t.Helper()
	s := &served{Cluster: balancertest.New(t, plane.Config, "../../../manifests/crds")}
	text, err := plane.Kubeconfig("mover", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	s.kubeconfig = filepath.Join(t.TempDir(), "its kubeconfig")
	if err := os.WriteFile(s.kubeconfig, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s.node(balancertest.Agent, "198.18.0.1")
	s.Lead()
	return s
}

func (s *served) node(name, address string) {
	s.Helper()
	nodes := s.Client.CoreV1().Nodes()
	node, err := nodes.Create(s.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	if _, err = nodes.UpdateStatus(s.Context(), node, metav1.UpdateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = nodes.Delete(context.WithoutCancel(s.Context()), name, metav1.DeleteOptions{}) })
}

func (s *served) namespace(name string) {
	s.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := s.Client.CoreV1().Namespaces().Create(s.Context(), ns, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

func (s *served) create(object *corev1.Service) {
	s.Helper()
	services := s.Client.CoreV1().Services(object.Namespace)
	if _, err := services.Create(s.Context(), object, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { s.DeleteService(object.Namespace, object.Name) })
}

// plan reads the cluster, and returns the plan with its script.
func (s *served) plan() (*Plan, string) {
	s.Helper()
	reader, err := network.NewReader(plane.Config)
	if err != nil {
		s.Fatal(err)
	}
	u, err := url.Parse(plane.Config.Host)
	if err != nil {
		s.Fatal(err)
	}
	cluster, err := Read(s.Context(), reader, u.Hostname())
	if err != nil {
		s.Fatal(err)
	}
	kubectl := []string{"kubectl", "--kubeconfig=" + s.kubeconfig}
	plan := cluster.Plan(kubectl...)
	script, err := plan.Script(kubectl)
	if err != nil {
		s.Fatal(err)
	}
	return plan, script
}

// run gives the script to a shell, with the lab's kubectl.
func (s *served) run(script string) (string, error) {
	s.Helper()
	path, err := manifeststest.Kubectl()
	if err != nil {
		s.Fatal(err)
	}
	cmd := exec.CommandContext(s.Context(), "sh", "-c", script)
	cmd.Env = []string{"PATH=" + filepath.Dir(path) + ":/usr/bin:/bin", "HOME=" + s.TempDir()}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// state is what the commands are to change of a Service.
func (s *served) state(namespace, name string) string {
	s.Helper()
	object, err := s.Client.CoreV1().Services(namespace).Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	ports := 0
	for _, port := range object.Spec.Ports {
		if port.NodePort != 0 {
			ports++
		}
	}
	return strings.Join([]string{
		string(object.Spec.Type), "externalIPs " + strings.Join(object.Spec.ExternalIPs, ","), "status " + texts(allocator.Earlier(object, true)),
		map[bool]string{true: "node ports", false: "no node ports"}[ports > 0],
	}, "; ")
}

// The printed commands, given to a shell as they are, end with each Service having its address in its status and no externalIPs.
// Blocked Services stay as they are, and a second plan has nothing to do but them.
func TestCluster_Move(t *testing.T) {
	s := serve(t)
	s.namespace("shop")
	s.namespace("mail")
	if _, err := s.Objects.AddressPools.Create(t.Context(), &v1alpha1.AddressPool{
		ObjectMeta: metav1.ObjectMeta{Name: "lan"}, Spec: v1alpha1.AddressPoolSpec{Ranges: []string{"192.0.2.8"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, name := range []string{"lan", "external-ips-shop", "external-ips-shared"} {
			_ = s.Objects.AddressPools.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
		}
	})
	nodePort, headless := service("shop", "dns", 53, "192.0.2.8"), service("shop", "head", 80, "192.0.2.9")
	nodePort.Spec.Type, headless.Spec.ClusterIP = corev1.ServiceTypeNodePort, corev1.ClusterIPNone
	for _, object := range []*corev1.Service{
		service("shop", "web", 443, "192.0.2.7"), service("mail", "smtp", 25, "192.0.2.7"), nodePort, headless,
		service("shop", "api", 443, "192.0.2.20"), service("shop", "onnode", 80, "198.18.0.1"),
		service("shop", "two", 80, "192.0.2.10", "192.0.2.11"),
	} {
		s.create(object)
	}
	plan, script := s.plan()
	before := map[string]string{"onnode": s.state("shop", "onnode"), "two": s.state("shop", "two")}
	out, err := s.run(script)
	if err != nil {
		t.Fatalf("%v: %s\n%s\n%+v", err, out, script, plan)
	}
	for name, want := range map[string]string{
		"shop/web":  "LoadBalancer; externalIPs ; status 192.0.2.7; no node ports",
		"mail/smtp": "LoadBalancer; externalIPs ; status 192.0.2.7; no node ports",
		"shop/dns":  "LoadBalancer; externalIPs ; status 192.0.2.8; node ports",
		"shop/api":  "LoadBalancer; externalIPs ; status 192.0.2.20; no node ports",
		"shop/head": "ClusterIP; externalIPs ; status ; no node ports",
	} {
		namespace, name, _ := strings.Cut(name, "/")
		if got := s.state(namespace, name); got != want {
			t.Errorf("%s/%s: %s, want %s\n%s", namespace, name, got, want, out)
		}
	}
	for name, was := range before {
		if got := s.state("shop", name); got != was {
			t.Errorf("blocked Service %s was changed: %s, before %s", name, got, was)
		}
	}
	again, rest := s.plan()
	left, all := again.Left()
	diff := cmp.Diff([]string{"shop/onnode", "shop/two"}, left)
	if diff != "" || len(all) != len(left) || rest != "" || len(again.Pools) > 0 {
		t.Errorf("a second plan: %s\n%s", diff, rest)
	}
	var shown bytes.Buffer
	if err := again.Show(&shown, []string{"kubectl"}, true); err != nil || strings.Contains(shown.String(), "kubectl") {
		t.Errorf("%v: it prints commands:\n%s", err, shown.String())
	}
}

// Where no agent announces the address, the commands end with an error, and externalIPs stay.
func TestCluster_MoveThatIsNotReady(t *testing.T) {
	s := serve(t)
	s.Paused.Store(true)
	s.namespace("quiet")
	s.create(service("quiet", "web", 443, "192.0.2.30"))
	t.Cleanup(func() {
		_ = s.Objects.AddressPools.Delete(context.WithoutCancel(t.Context()), "external-ips-quiet", metav1.DeleteOptions{})
	})
	_, script := s.plan()
	out, err := s.run(strings.ReplaceAll(script, "--timeout="+readyTime, "--timeout=3s"))
	if got := s.state("quiet", "web"); err == nil || got != "LoadBalancer; externalIPs 192.0.2.30; status ; no node ports" {
		t.Errorf("%v: %s\n%s\n%s", err, got, script, out)
	}
	s.Paused.Store(false)
	_, script = s.plan() // once it announces, the rest is done
	if out, err := s.run(script); err != nil {
		t.Errorf("%v: %s\n%s", err, out, script)
	}
	if got := s.state("quiet", "web"); got != "LoadBalancer; externalIPs ; status 192.0.2.30; no node ports" {
		t.Errorf("at the end: %s", got)
	}
}
