package gateway

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/apply"
	"github.com/ccmadm/ccmadm/manifests/manifeststest"
	"github.com/ccmadm/ccmadm/provider/balancer/balancertest"
	"github.com/ccmadm/ccmadm/templates"
)

// manager is the user that the cloud-controller-manager of a static pod is.
const manager = "system:cloud-controller-manager"

// pools are those of the page: one for every Service, and one for those that name it.
const pools = `
apiVersion: ccmadm.dev/v1alpha1
kind: AddressPool
metadata: {name: lan}
spec: {ranges: [192.0.2.50-192.0.2.99]}
---
apiVersion: ccmadm.dev/v1alpha1
kind: AddressPool
metadata: {name: dmz}
spec: {ranges: [198.51.100.10-198.51.100.19], autoAssign: false}
`

// cluster is an API server with the permissions and policies of provider onprem, its cloud-controller-manager, and a Node whose agent
// announces what is claimed.
type cluster struct {
	*balancertest.Cluster
	gateways   dynamic.NamespaceableResourceInterface
	kubeconfig string
	kubectl    string
	files      int
}

// newCluster has these definitions, too.
func newCluster(t *testing.T, definitions ...string) *cluster {
	t.Helper()
	plane, err := manifeststest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	c := &cluster{Cluster: balancertest.New(t, plane.Config, "../../manifests/crds")}
	options := envtest.CRDInstallOptions{Paths: definitions, ErrorIfPathMissing: true, MaxTime: time.Minute}
	if _, err := envtest.InstallCRDs(c.Config, options); err != nil {
		t.Fatal(err)
	}
	c.gateways = dynamic.NewForConfigOrDie(c.Config).Resource(schema.GroupVersionResource{
		Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gateways",
	})
	c.kubeconfig = c.file(kubeconfigOf(t, plane, "admin", "system:masters"))
	if c.kubectl, err = manifeststest.Kubectl(); err != nil {
		t.Fatal(err)
	}
	c.install()
	c.node(balancertest.Agent, "198.18.0.1")
	c.apply(pools)
	start(t, exec.Command(program(t, "cloud-controller-manager"), "--kubeconfig="+c.file(kubeconfigOf(t, plane, manager)),
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", freePorts(t, 1)[0])))
	var agent sync.WaitGroup
	agent.Go(func() { c.Announce(t.Context()) })
	t.Cleanup(agent.Wait)
	return c
}

func kubeconfigOf(t *testing.T, plane *manifeststest.ControlPlane, user string, groups ...string) string {
	t.Helper()
	data, err := plane.Kubeconfig(user, groups...)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// install applies the permissions and admission policies that ccmadm gives provider onprem.
func (c *cluster) install() {
	c.Helper()
	p, err := templates.Load("onprem")
	if err != nil {
		c.Fatal(err)
	}
	objects, err := manifests.RBAC(p, manifeststest.Values(p, p.Modes[0], "v1.36.0", true))
	if err != nil {
		c.Fatal(err)
	}
	applier, err := apply.NewCluster(c.Config, false)
	if err != nil {
		c.Fatal(err)
	}
	if _, err := applier.Apply(c.Context(), apply.RBAC, objects); err != nil {
		c.Fatal(err)
	}
}

func (c *cluster) node(name, address string) {
	c.Helper()
	manifeststest.Node(c, c.Client, name, address)
}

// file writes a file of the test, and returns its path.
func (c *cluster) file(text string) string {
	c.Helper()
	c.files++
	path := filepath.Join(c.TempDir(), fmt.Sprint(c.files)+".yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.Fatal(err)
	}
	return path
}

// run gives words to kubectl, and returns what it prints.
func (c *cluster) run(words string) string {
	c.Helper()
	out, err := output(c.Context(), c.kubectl, []string{"KUBECONFIG=" + c.kubeconfig}, strings.Fields(words)...)
	if err != nil {
		c.Fatal(err)
	}
	return out
}

func (c *cluster) apply(text string) {
	c.Helper()
	c.run("apply -f " + c.file(text))
}

// why is what `ccmadm lb why NAMESPACE/SERVICE` prints.
func (c *cluster) why(service string) string {
	c.Helper()
	out, _ := output(c.Context(), program(c.T, "ccmadm"), nil, "lb", "why", service, "--kubeconfig", c.kubeconfig) // it fails if not ready
	return out
}

// gateway is what a Gateway's status says.
type gateway struct {
	Status struct {
		Addresses  []struct{ Type, Value string }
		Conditions []metav1.Condition
	}
}

func (c *cluster) gateway(namespace, name string) (g gateway) {
	c.Helper()
	object, err := c.gateways.Namespace(namespace).Get(c.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	decode(c.T, object.Object, &g)
	return g
}

// addresses are those of the status, with commas.
func (g gateway) addresses() string {
	var list []string
	for _, a := range g.Status.Addresses {
		list = append(list, a.Value)
	}
	return strings.Join(list, ",")
}

// programmed is the reason of the condition, and its message.
func (g gateway) programmed() (reason, message string) {
	condition := meta.FindStatusCondition(g.Status.Conditions, "Programmed")
	if condition == nil {
		return "", ""
	}
	return condition.Reason, condition.Message
}

// service is a Service, or nil.
func (c *cluster) service(namespace, name string) *corev1.Service {
	list, err := c.Client.CoreV1().Services(namespace).List(c.Context(), metav1.ListOptions{})
	if err != nil {
		c.Fatal(err)
	}
	i := slices.IndexFunc(list.Items, func(s corev1.Service) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &list.Items[i]
}

// ingress are the addresses that the Service has, with commas.
func ingress(s *corev1.Service) string {
	var list []string
	for _, i := range s.Status.LoadBalancer.Ingress {
		list = append(list, cmp.Or(i.IP, i.Hostname))
	}
	return strings.Join(list, ",")
}

// ready is the condition that ccmadm sets, and its reason and message are empty where there is none.
func ready(s *corev1.Service) (reason, message string) {
	condition := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.LoadBalancerReady)
	if condition == nil {
		return "", ""
	}
	return condition.Reason, condition.Message
}

// becomes waits until the Service has these addresses and this reason.
func (c *cluster) becomes(namespace, name, addresses, reason string) *corev1.Service {
	c.Helper()
	var s *corev1.Service
	until(c.T, fmt.Sprintf("Service/%s/%s has %q, reason %s", namespace, name, addresses, reason), func() string {
		if s = c.service(namespace, name); s == nil {
			return "there is no such Service"
		}
		if got, message := ready(s); got != reason || ingress(s) != addresses {
			return fmt.Sprintf("it has %q, reason %s: %s", ingress(s), got, message)
		}
		return ""
	})
	return s
}

// warned waits for a Warning about the Service with this reason, and returns its message.
func (c *cluster) warned(namespace, name, reason string) (message string) {
	c.Helper()
	until(c.T, fmt.Sprintf("Service/%s/%s has an Event %s", namespace, name, reason), func() string {
		events, err := c.Client.CoreV1().Events(namespace).List(c.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		for _, e := range events.Items {
			if e.InvolvedObject.Name == name && e.Reason == reason && e.Type == corev1.EventTypeWarning {
				message = e.Message
				return ""
			}
		}
		return fmt.Sprintf("%d Events", len(events.Items))
	})
	return message
}
