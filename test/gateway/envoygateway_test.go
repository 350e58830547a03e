package gateway

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

const envoyGatewayModule = "github.com/envoyproxy/gateway"

// proxies is the Namespace of the Services that Envoy Gateway makes, whatever the Namespace of the Gateway.
const proxies = "envoy-gateway-system"

const envoyClass = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: eg}
spec: {controllerName: gateway.envoyproxy.io/gatewayclass-controller}
`

// envoyGatewaySettings switch off what needs more replicas or a webhook.
const envoyGatewaySettings = `
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyGateway
gateway: {controllerName: gateway.envoyproxy.io/gatewayclass-controller}
provider:
  type: Kubernetes
  kubernetes: {leaderElection: {disable: true}, proxyTopologyInjector: {disabled: true}}
`

// envoy is a cluster with Envoy Gateway.
type envoy struct {
	*cluster
	server *process
}

// newEnvoy runs Envoy Gateway in a root directory of its own: it reads certificates from /certs, as in its image.
func newEnvoy(t *testing.T) envoy {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("a root directory of its own needs root: make gateway-check")
	}
	c := envoy{cluster: newCluster(
		t, filepath.Join(moduleFolder(t, "envoygateway", gatewayModule), "config/crd/experimental"),
		filepath.Join(moduleFolder(t, "envoygateway", envoyGatewayModule), "charts/gateway-helm/charts/crds/crds/generated"),
	)}
	c.run("create namespace " + proxies)
	c.run("create namespace shop")
	root := t.TempDir()
	for _, folder := range []string{"certs", "tmp", "var/lib/eg/wasm"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	copied(t, program(t, "envoy-gateway"), filepath.Join(root, "envoy-gateway"), 0o755)
	copied(t, c.kubeconfig, filepath.Join(root, "kubeconfig"), 0o600)
	copied(t, c.file(envoyGatewaySettings), filepath.Join(root, "settings.yaml"), 0o600)
	inside := func(args ...string) *exec.Cmd {
		cmd := exec.Command("/envoy-gateway", args...)
		cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Chroot: root}
		cmd.Env = []string{"KUBECONFIG=/kubeconfig", "ENVOY_GATEWAY_NAMESPACE=" + proxies, "HOME=/tmp"}
		return cmd
	}
	if out, err := inside("certgen", "--disable-topology-injector").CombinedOutput(); err != nil {
		t.Fatalf("make its certificates: %v\n%s", err, out)
	}
	secret, err := c.Client.CoreV1().Secrets(proxies).Get(t.Context(), "envoy-gateway", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range secret.Data {
		if err := os.WriteFile(filepath.Join(root, "certs", name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.apply(envoyClass)
	c.server = start(t, inside("server", "--config-path=/settings.yaml"))
	return c
}

func copied(t *testing.T, from, to string, mode os.FileMode) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, mode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// of is the Service of a Gateway in Namespace shop, or nil.
func (c envoy) of(name string) *corev1.Service {
	c.Helper()
	list, err := c.Client.CoreV1().Services(proxies).List(c.Context(), metav1.ListOptions{
		LabelSelector: "gateway.envoyproxy.io/owning-gateway-namespace=shop,gateway.envoyproxy.io/owning-gateway-name=" + name,
	})
	if err != nil {
		c.Fatal(err)
	}
	if len(list.Items) == 0 {
		return nil
	}
	return &list.Items[0]
}

// TestEnvoyGateway: an implementation that writes spec.addresses to externalIPs, which the policy of provider onprem denies, and copies
// annotations.
func TestEnvoyGateway(t *testing.T) {
	c := newEnvoy(t)
	c.denied()
	c.annotated()
	c.allowed()
}

// denied: there is no Service, and the log of Envoy Gateway has the label and what to do instead.
func (c envoy) denied() {
	c.Helper()
	const address = "192.0.2.60"
	c.apply(gatewayOf("eg", "shop", "web", 80, requests(address)))
	wanted := []string{
		"externalIPs " + address + ": denied unless the Namespace has label " + v1alpha1.ExternalIPsLabel + "=allow",
		v1alpha1.AddressesAnnotation, "spec.infrastructure.annotations instead of spec.addresses",
	}
	until(c.T, "Envoy Gateway logs the refusal", func() string {
		text := c.server.text()
		if i := slices.IndexFunc(wanted, func(w string) bool { return !strings.Contains(text, w) }); i >= 0 {
			return "it lacks " + wanted[i]
		}
		return ""
	})
	c.says("web", address, "AddressNotUsable")
	if s := c.of("web"); s != nil {
		c.Errorf("there is Service/%s with %v", s.Name, s.Spec.ExternalIPs)
	}
}

// annotated is the remedy that the policy names: the same Gateway gets the address by an annotation.
func (c envoy) annotated() {
	c.Helper()
	const address = "192.0.2.60"
	c.run("-n shop patch gateway web --type merge -p " +
		`{"spec":{"addresses":null,"infrastructure":{"annotations":{"ccmadm.dev/addresses":"` + address + `"}}}}`)
	c.gets("web", address)
	c.says("web", address, "NoResources") // no machine runs an Envoy
	c.apply(gatewayOf("eg", "shop", "pool", 80, annotated("ccmadm.dev/address-pool: dmz")))
	until(c.T, "a Gateway with a pool", func() string {
		g := c.gateway("shop", "pool")
		if !strings.HasPrefix(g.addresses(), "198.51.100.") {
			return fmt.Sprintf("it has %q", g.addresses())
		}
		return ""
	})
}

// allowed: with the label there is a Service with externalIPs, which ccmadm does not announce: it has another address. Only with the
// annotation beside it are both the same.
func (c envoy) allowed() {
	c.Helper()
	const first, second = "192.0.2.70", "192.0.2.71"
	c.run("label namespace " + proxies + " ccmadm.dev/external-ips=allow")
	c.apply(gatewayOf("eg", "shop", "external", 80, requests(first)))
	var own string
	until(c.T, "a Service with externalIPs has an address", func() string {
		s := c.of("external")
		if s == nil || len(s.Spec.ExternalIPs) == 0 {
			return "there is no Service with externalIPs"
		}
		own = ingress(s)
		if reason, message := ready(s); reason != allocator.AnnouncedReason {
			return reason + ": " + message
		}
		return ""
	})
	if own == "" || own == first {
		c.Errorf("the Service has %q, want another address than the one that it has as an external IP", own)
	}
	c.says("external", first, "NoResources")
	if _, err := c.Client.NetworkingV1().IPAddresses().Get(c.Context(), first, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		c.Errorf("an external IP is claimed: %v", err)
	}
	c.apply(gatewayOf("eg", "shop", "both", 80, requests(second), annotated("ccmadm.dev/addresses: "+second)))
	c.gets("both", second)
	c.says("both", second, "NoResources")
}

// gets waits until the Service of a Gateway has the address.
func (c envoy) gets(name, address string) {
	c.Helper()
	until(c.T, "Gateway/shop/"+name+" has a Service with "+address, func() string {
		s := c.of(name)
		if s == nil {
			return "there is no Service"
		}
		if reason, message := ready(s); reason != allocator.AnnouncedReason || ingress(s) != address {
			return fmt.Sprintf("it has %q, reason %s: %s", ingress(s), reason, message)
		}
		return ""
	})
}

// says waits until the status of a Gateway has the address and the reason.
func (c envoy) says(name, address, reason string) {
	c.Helper()
	until(c.T, fmt.Sprintf("Gateway/shop/%s has %q, reason %s", name, address, reason), func() string {
		g := c.gateway("shop", name)
		if got, message := g.programmed(); got != reason || g.addresses() != address {
			return fmt.Sprintf("it has %q, reason %s: %s", g.addresses(), got, message)
		}
		return ""
	})
}
