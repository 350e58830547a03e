package gateway

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

const (
	contourModule = "github.com/projectcontour/contour"
	gatewayModule = "sigs.k8s.io/gateway-api"
)

// contourClasses are a class as the page has it, with externalTrafficPolicy Cluster, and the default, which is Local. Ports of the
// proxies' control plane are those of this machine, and nothing connects to it.
const contourClasses = `
apiVersion: v1
kind: Namespace
metadata: {name: projectcontour}
---
apiVersion: projectcontour.io/v1alpha1
kind: ContourDeployment
metadata: {namespace: projectcontour, name: shared}
spec:
  envoy: {networkPublishing: {externalTrafficPolicy: Cluster}}
  runtimeSettings:
    xdsServer: {address: 127.0.0.1, port: %[1]d, tls: {insecure: true}}
    metrics: {address: 127.0.0.1, port: %[2]d}
    health: {address: 127.0.0.1, port: %[2]d}
    debug: {address: 127.0.0.1, port: %[3]d}
---
apiVersion: projectcontour.io/v1alpha1
kind: ContourDeployment
metadata: {namespace: projectcontour, name: local}
spec:
  runtimeSettings:
    xdsServer: {address: 127.0.0.1, port: %[1]d, tls: {insecure: true}}
    metrics: {address: 127.0.0.1, port: %[2]d}
    health: {address: 127.0.0.1, port: %[2]d}
    debug: {address: 127.0.0.1, port: %[3]d}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: contour}
spec:
  controllerName: projectcontour.io/gateway-controller
  parametersRef: {group: projectcontour.io, kind: ContourDeployment, namespace: projectcontour, name: shared}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: contour-local}
spec:
  controllerName: projectcontour.io/gateway-controller
  parametersRef: {group: projectcontour.io, kind: ContourDeployment, namespace: projectcontour, name: local}
`

// gatewayOf is a Gateway of a class with a listener, and what else its specification has.
func gatewayOf(class, namespace, name string, port int, more ...string) string {
	return fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {namespace: %s, name: %s}
spec:
  gatewayClassName: %s
  listeners: [{name: http, protocol: HTTP, port: %d}]
%s
`, namespace, name, class, port, strings.Join(more, "\n"))
}

func requests(address string) string {
	return "  addresses: [{type: IPAddress, value: " + address + "}]"
}

func annotated(pairs string) string { return "  infrastructure: {annotations: {" + pairs + "}}" }

// contour is a cluster with Contour's provisioner.
type contour struct{ *cluster }

func newContour(t *testing.T) contour {
	t.Helper()
	c := contour{newCluster(
		t, filepath.Join(moduleFolder(t, "contour", gatewayModule), "config/crd/experimental"),
		filepath.Join(moduleFolder(t, "contour", contourModule), "examples/contour/01-crds.yaml"),
	)}
	ports := freePorts(t, 3)
	c.apply(fmt.Sprintf(contourClasses, ports[0], ports[1], ports[2]))
	start(t, exec.Command(program(t, "contour"), "gateway-provisioner", "--no-incluster", "--kubeconfig="+c.kubeconfig, "--metrics-addr=0"))
	return c
}

// told runs the Contour of a Gateway, as the provisioner's Deployment describes it, until the Gateway's status is as wanted. It runs twice:
// Contour judges condition Programmed before it writes the address that it has found, and then once the Gateway's specification changes or
// Contour starts (k8s.IsObjectEqual leaves out status).
func (c contour) told(namespace, name, addresses, reason string) (message string) {
	c.Helper()
	var args []string
	until(c.T, "Deployment/"+namespace+"/contour-"+name, func() string {
		d, err := c.Client.AppsV1().Deployments(namespace).Get(c.Context(), "contour-"+name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		args = slices.Clone(d.Spec.Template.Spec.Containers[0].Args)
		return ""
	})
	args[slices.Index(args, "--incluster")] = "--kubeconfig=" + c.kubeconfig
	for _, reasons := range []string{"", reason} {
		cmd := exec.Command(program(c.T, "contour"), args...)
		cmd.Env = append(os.Environ(), "CONTOUR_NAMESPACE="+namespace, "POD_NAME="+name)
		serve := start(c.T, cmd)
		until(c.T, fmt.Sprintf("Gateway/%s/%s has %q, reason %s", namespace, name, addresses, cmp.Or(reasons, "any")), func() string {
			g := c.gateway(namespace, name)
			var got string
			if got, message = g.programmed(); got == "" || reasons != "" && got != reasons || g.addresses() != addresses {
				return fmt.Sprintf("it has %q, reason %s: %s", g.addresses(), got, message)
			}
			return ""
		})
		serve.stop()
	}
	return message
}

// TestContour: an implementation that requests the address by spec.loadBalancerIP, and copies annotations.
func TestContour(t *testing.T) {
	c := newContour(t)
	for _, namespace := range []string{"shop", "mail"} {
		c.run("create namespace " + namespace)
	}
	c.requested()
	c.refused()
	c.named()
	c.annotated()
	c.shared()
	c.deleted()
}

// requested: the Gateway gets the address of the pool, and follows when it requests another one.
func (c contour) requested() {
	c.Helper()
	c.apply(gatewayOf("contour", "shop", "web", 80, requests("192.0.2.60")))
	s := c.becomes("shop", "envoy-web", "192.0.2.60", allocator.AnnouncedReason)
	if s.Spec.LoadBalancerIP != "192.0.2.60" || len(s.Spec.ExternalIPs) != 0 {
		c.Errorf("Contour asks by %q and %v", s.Spec.LoadBalancerIP, s.Spec.ExternalIPs)
	}
	c.told("shop", "web", "192.0.2.60", "Programmed")
	c.apply(gatewayOf("contour", "shop", "web", 80, requests("192.0.2.61")))
	c.becomes("shop", "envoy-web", "192.0.2.61", allocator.AnnouncedReason)
	c.told("shop", "web", "192.0.2.61", "Programmed")
}

// refused: the Service says why an address is not given, and the Gateway that it has none. It gets the address once a pool has it.
func (c contour) refused() {
	c.Helper()
	const outside = "203.0.113.9"
	c.apply(gatewayOf("contour", "shop", "outside", 80, requests(outside)))
	s := c.becomes("shop", "envoy-outside", "", "AddressOutsidePools")
	if _, message := ready(s); !strings.Contains(message, outside+" is in no AddressPool") {
		c.Errorf("the condition says %s", message)
	}
	if message := c.warned("shop", "envoy-outside", "AddressOutsidePools"); !strings.Contains(message, outside) {
		c.Errorf("the Event says %s", message)
	}
	if why := c.why("shop/envoy-outside"); !strings.Contains(why, outside+" is in no AddressPool") {
		c.Errorf("ccmadm lb why says %s", why)
	}
	if message := c.told("shop", "outside", "", "AddressNotAssigned"); !strings.Contains(message, "None of the addresses") {
		c.Errorf("the Gateway says %s", message)
	}
	c.run("patch addresspool dmz --type merge -p {\"spec\":{\"ranges\":[\"198.51.100.10-198.51.100.19\",\"" + outside + "\"]}}")
	c.becomes("shop", "envoy-outside", outside, allocator.AnnouncedReason)
	c.told("shop", "outside", outside, "Programmed")
}

// named: Contour writes a host name into spec.loadBalancerIP as well.
func (c contour) named() {
	c.Helper()
	c.apply(gatewayOf("contour", "shop", "named", 80, "  addresses: [{type: Hostname, value: www.example.com}]"))
	s := c.becomes("shop", "envoy-named", "", "AddressOutsidePools")
	if _, message := ready(s); !strings.Contains(message, `"www.example.com" is no IP address`) {
		c.Errorf("the condition says %s", message)
	}
}

// annotated: annotations of spec.infrastructure choose the pool or the address, and come before spec.addresses.
func (c contour) annotated() {
	c.Helper()
	c.apply(gatewayOf("contour", "shop", "pool", 80, annotated("ccmadm.dev/address-pool: dmz")))
	until(c.T, "a Gateway with a pool", func() string {
		s := c.service("shop", "envoy-pool")
		if s == nil || !strings.HasPrefix(ingress(s), "198.51.100.") {
			return "it has no address of the pool"
		}
		return ""
	})
	c.apply(gatewayOf("contour", "shop", "address", 80, annotated("ccmadm.dev/addresses: 192.0.2.70")))
	c.becomes("shop", "envoy-address", "192.0.2.70", allocator.AnnouncedReason)
	c.told("shop", "address", "192.0.2.70", "Programmed")
	c.apply(gatewayOf("contour", "shop", "wrong-pool", 80, requests("192.0.2.71"), annotated("ccmadm.dev/address-pool: dmz")))
	s := c.becomes("shop", "envoy-wrong-pool", "", "AddressOutsidePools")
	if _, message := ready(s); !strings.Contains(message, "192.0.2.71 is in AddressPool/lan, not in dmz") {
		c.Errorf("the condition says %s", message)
	}
	c.apply(gatewayOf("contour", "shop", "both", 80, requests("192.0.2.72"), annotated("ccmadm.dev/addresses: 192.0.2.73")))
	c.becomes("shop", "envoy-both", "192.0.2.73", allocator.AnnouncedReason)
	c.told("shop", "both", "192.0.2.73", "AddressNotAssigned")
}

// shared: a second Gateway gets the address with consent, at another port, and with externalTrafficPolicy Cluster.
func (c contour) shared() {
	c.Helper()
	const address = "192.0.2.80"
	key := annotated("ccmadm.dev/share-key: front")
	c.apply(gatewayOf("contour", "shop", "first", 80, requests(address)))
	c.becomes("shop", "envoy-first", address, allocator.AnnouncedReason)
	c.apply(gatewayOf("contour", "shop", "second", 8080, requests(address)))
	s := c.becomes("shop", "envoy-second", "", "AddressInUse")
	if _, message := ready(s); !strings.Contains(message, address+" belongs to Service/shop/envoy-first") ||
		!strings.Contains(message, "ccmadm.dev/share-key") {
		c.Errorf("the condition says %s", message)
	}
	c.told("shop", "second", "", "AddressNotAssigned")
	c.apply(gatewayOf("contour", "shop", "first", 80, requests(address), key))
	c.apply(gatewayOf("contour", "shop", "second", 8080, requests(address), key))
	c.becomes("shop", "envoy-second", address, allocator.AnnouncedReason)
	c.told("shop", "second", address, "Programmed")
	c.apply(gatewayOf("contour", "shop", "same-port", 80, requests(address), key))
	s = c.becomes("shop", "envoy-same-port", "", "SharingConflict")
	if _, message := ready(s); !strings.Contains(message, "has port 80/TCP, too") {
		c.Errorf("the condition says %s", message)
	}
	c.apply(gatewayOf("contour-local", "shop", "local", 8443, requests(address), key))
	s = c.becomes("shop", "envoy-local", "", "SharingConflict")
	if _, message := ready(s); !strings.Contains(message, "externalTrafficPolicy is Local") {
		c.Errorf("the condition says %s", message)
	}
	c.sharedAcross(address)
}

// sharedAcross: in another namespace both have to list the other.
func (c contour) sharedAcross(address string) {
	c.Helper()
	lists := func(namespace string) string {
		return annotated("ccmadm.dev/share-key: front, ccmadm.dev/share-namespaces: " + namespace)
	}
	c.apply(gatewayOf("contour", "mail", "smtp", 25, requests(address), lists("shop")))
	s := c.becomes("mail", "envoy-smtp", "", "SharingConflict")
	if _, message := ready(s); !strings.Contains(message, "does not list mail") {
		c.Errorf("the condition says %s", message)
	}
	c.apply(gatewayOf("contour", "shop", "first", 80, requests(address), lists("mail")))
	c.apply(gatewayOf("contour", "shop", "second", 8080, requests(address), lists("mail")))
	c.becomes("mail", "envoy-smtp", address, allocator.AnnouncedReason)
	c.told("mail", "smtp", address, "Programmed")
}

// deleted: the address of a Gateway that is deleted goes back to the pool.
func (c contour) deleted() {
	c.Helper()
	c.run("-n shop delete gateway web")
	until(c.T, "the Service is deleted", func() string {
		if s := c.service("shop", "envoy-web"); s != nil {
			return fmt.Sprintf("it is there, with %q and finalizers %v", ingress(s), s.Finalizers)
		}
		return ""
	})
	until(c.T, "the address is free", func() string {
		object, err := c.Client.NetworkingV1().IPAddresses().Get(c.Context(), "192.0.2.61", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		if err != nil {
			return err.Error()
		}
		if claim, ours := allocator.ParseClaim(object); ours && claim.Live() {
			return "it is claimed"
		}
		return ""
	})
}
