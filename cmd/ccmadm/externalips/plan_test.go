package externalips

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// service is a ClusterIP Service with a port and externalIPs.
func service(namespace, name string, port int32, externalIPs ...string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, Selector: map[string]string{"app": name}, ExternalIPs: externalIPs,
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports:      []corev1.ServicePort{{Port: port, Protocol: corev1.ProtocolTCP}},
		},
	}
}

// with changes a Service.
func with(s *corev1.Service, changes ...func(*corev1.Service)) corev1.Service {
	for _, change := range changes {
		change(s)
	}
	return *s
}

func balanced(addresses ...string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		for _, address := range addresses {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: address})
		}
	}
}

func annotated(key, value string) func(*corev1.Service) {
	return func(s *corev1.Service) { metav1.SetMetaDataAnnotation(&s.ObjectMeta, key, value) }
}

func families(list ...corev1.IPFamily) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.IPFamilies = list }
}

func local(s *corev1.Service) {
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}

// known is a cluster with a Node, an API server, a router, and a pool of a namespace.
func known(services ...corev1.Service) *Cluster {
	agent := v1alpha1.NodeAgent{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	agent.Status.RenewTime = metav1.NewMicroTime(now)
	agent.Status.Interfaces = []v1alpha1.AgentInterface{{Name: "eth0", Addresses: []string{"192.0.2.77/24"}}}
	limited := v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: "dmz", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}}
	limited.Spec.Ranges, limited.Spec.Serve.Namespaces = []string{"203.0.113.0/28"}, []string{"dmz"}
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", CreationTimestamp: metav1.NewTime(now.Add(-2 * time.Hour))}}
	node.Spec.PodCIDRs = []string{"10.244.0.0/24"}
	node.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "198.18.0.1"}, {Type: corev1.NodeExternalIP, Address: "192.0.2.99"},
	}
	return &Cluster{
		Now: now, Services: services, Defined: true, Nodes: []corev1.Node{node}, Agents: []v1alpha1.NodeAgent{agent},
		Namespaces: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, {ObjectMeta: metav1.ObjectMeta{Name: "mail"}}},
		CIDRs: []networkingv1.ServiceCIDR{{
			ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16"}},
		}},
		Servers: []discoveryv1.EndpointSlice{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.100"}}},
		}},
		Endpoints: map[netip.Addr]bool{netip.MustParseAddr("192.0.2.101"): true},
		Pools:     []v1alpha1.AddressPool{limited},
		Peers:     []v1alpha1.BGPPeer{{ObjectMeta: metav1.ObjectMeta{Name: "tor"}, Spec: v1alpha1.BGPPeerSpec{Address: "192.0.2.254"}}},
		Claims:    []networkingv1.IPAddress{{ObjectMeta: metav1.ObjectMeta{Name: "192.0.2.66"}}},
	}
}

// What a Service is told, by what it is and has.
func TestPlan_Actions(t *testing.T) {
	class := "example.com/lb"
	for _, tt := range []struct {
		name    string
		service corev1.Service
		action  Action
		reason  string
	}{
		{"a free address", with(service("shop", "web", 443, "192.0.2.7")), Move, ""},
		{"an address in an uncommon form", with(service("shop", "web", 443, "2001:DB8:0::7"), families(corev1.IPv6Protocol)), Move, ""},
		{
			"one of each family",
			with(service("shop", "web", 443, "192.0.2.7", "2001:db8::7"), families(corev1.IPv4Protocol, corev1.IPv6Protocol)),
			Move, "",
		},
		{"a load balancer that waits", with(service("shop", "web", 443, "192.0.2.7"), balanced()), Move, ""},
		{"an address on a Node's interface", with(service("shop", "web", 443, "192.0.2.77")), Move, ""},
		{"two of a family", with(service("shop", "web", 443, "192.0.2.7", "192.0.2.8")), Blocked, "several addresses of one IP family"},
		{"another family", with(service("shop", "web", 443, "2001:db8::7")), Remove, "kube-proxy ignores addresses of an IP family"},
		{"not an address", with(service("shop", "web", 443, "010.0.0.1")), Blocked, "address 010.0.0.1 cannot be read"},
		{
			"headless",
			with(service("shop", "web", 443, "192.0.2.7"), func(s *corev1.Service) { s.Spec.ClusterIP = "None" }),
			Remove, "headless",
		},
		{
			"of type ExternalName",
			with(service("shop", "web", 443, "192.0.2.7"), func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }),
			Remove, "ExternalName",
		},
		{"a load balancer with the address", with(service("shop", "web", 443, "192.0.2.7"), balanced("192.0.2.7")), Remove, "same addresses"},
		{
			"a load balancer with another address",
			with(service("shop", "web", 443, "192.0.2.7"), balanced("203.0.113.5")),
			Blocked, "already has another address",
		},
		{
			"of another class",
			with(service("shop", "web", 443, "192.0.2.7"), balanced(), func(s *corev1.Service) { s.Spec.LoadBalancerClass = &class }),
			Blocked, "example.com/lb",
		},
		{
			"being deleted",
			with(service("shop", "web", 443, "192.0.2.7"), func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{Time: now} }),
			Blocked, "being deleted",
		},
		{"the InternalIP of a Node", with(service("shop", "web", 443, "198.18.0.1")), Blocked, "is the InternalIP of Node/n1"},
		{"the ExternalIP of a Node", with(service("shop", "web", 443, "192.0.2.99")), Blocked, "is the ExternalIP of Node/n1"},
		{"an API server's", with(service("shop", "web", 443, "192.0.2.100")), Blocked, "is the control plane's address"},
		{"the control plane's endpoint", with(service("shop", "web", 443, "192.0.2.101")), Blocked, "is the control plane's address"},
		{"a router's", with(service("shop", "web", 443, "192.0.2.254")), Blocked, "BGPPeer/tor"},
		{"a cluster IP", with(service("shop", "web", 443, "10.96.0.10")), Blocked, "ServiceCIDR/kubernetes"},
		{"a pod's", with(service("shop", "web", 443, "10.244.0.9")), Blocked, "10.244.0.0/24 belongs to the pods of Node/n1"},
		{"claimed by another program", with(service("shop", "web", 443, "192.0.2.66")), Blocked, "IPAddress of another owner"},
		{
			"in a pool of another namespace",
			with(service("shop", "web", 443, "203.0.113.7")),
			Blocked, "AddressPool/dmz contains 203.0.113.7 but does not serve the Service",
		},
		{"in a pool of its namespace", with(service("dmz", "web", 443, "203.0.113.7")), Move, ""},
		{
			"it asks for another pool",
			with(service("shop", "web", 443, "192.0.2.7"), annotated(v1alpha1.PoolAnnotation, "gone")),
			Blocked, "not in gone",
		},
		{
			"it asks for addresses of Nodes",
			with(service("shop", "web", 443, "192.0.2.7"), annotated(v1alpha1.LevelAnnotation, "NodeIP")),
			Blocked, "requests addresses of Nodes",
		},
		{
			"it requires a second family",
			with(service("shop", "web", 443, "192.0.2.7"), families(corev1.IPv4Protocol, corev1.IPv6Protocol)),
			Blocked, "NoPoolServes",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan := known(tt.service).Plan("kubectl")
			got := plan.Services[0]
			if got.Action != tt.action || !strings.Contains(got.Reason, tt.reason) {
				t.Errorf("got %s: %s, want %s: %s", got.Action, got.Reason, tt.action, tt.reason)
			}
			if tt.action == Blocked && (len(got.Commands) > 0 || len(plan.Pools) > 0 || got.Do == "") {
				t.Errorf("blocked, with commands %v, pools %v, do %q", got.Commands, plan.Pools, got.Do)
			}
			if tt.action == Remove && (len(got.Commands) != 1 || len(plan.Pools) > 0) {
				t.Errorf("commands %v, pools %v", got.Commands, plan.Pools)
			}
		})
	}
}

// Services beside each other: who gets the address, and what the plan says.
func TestPlan_Together(t *testing.T) {
	for _, tt := range []struct {
		name     string
		services []corev1.Service
		want     string // action of each
		reason   string // of the last
	}{
		{
			"two ports of one address",
			[]corev1.Service{with(service("shop", "a", 80, "192.0.2.7")), with(service("shop", "b", 81, "192.0.2.7"))},
			"[Move Move]", "",
		},
		{
			"two ports across namespaces",
			[]corev1.Service{with(service("mail", "a", 80, "192.0.2.7")), with(service("shop", "b", 81, "192.0.2.7"))},
			"[Move Move]", "",
		},
		{
			"one port of one address",
			[]corev1.Service{with(service("shop", "a", 80, "192.0.2.7")), with(service("shop", "b", 80, "192.0.2.7"))},
			"[Move Blocked]", "has port 80/TCP, too",
		},
		{
			"Local across namespaces",
			[]corev1.Service{with(service("mail", "a", 80, "192.0.2.7")), with(service("shop", "b", 81, "192.0.2.7"), local)},
			"[Move Blocked]", "has other pods",
		},
		{"a load balancer has the address", []corev1.Service{
			with(service("shop", "a", 80), balanced("203.0.113.9"), annotated(v1alpha1.AddressesAnnotation, "192.0.2.7")), with(service("shop", "b", 81, "192.0.2.7")),
		}, "[Blocked]", "192.0.2.7 belongs to Service/shop/a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plan := known(tt.services...).Plan("kubectl")
			var got []Action
			for _, s := range plan.Services {
				got = append(got, s.Action)
			}
			if last := plan.Services[len(plan.Services)-1]; fmt.Sprint(got) != tt.want || !strings.Contains(last.Reason, tt.reason) {
				t.Errorf("got %v, %s, want %s, %s", got, last.Reason, tt.want, tt.reason)
			}
		})
	}
}

// A pool has the addresses of its namespace and no others, and nothing that exists is overwritten.
func TestPlan_Pools(t *testing.T) {
	var services []corev1.Service
	for i := range 140 { // every second address: 140 ranges
		services = append(services, with(service("shop", fmt.Sprint("s", i), 80, fmt.Sprintf("192.168.%d.%d", i/100, 2*(i%100)+2))))
	}
	services = append(services, with(service("mail", "a", 80, "192.0.2.7")), with(service("mail", "b", 80, "192.0.2.8")),
		with(service("mail", "c", 81, "192.168.0.2")))
	cluster := known(services...)
	taken := v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: "external-ips-mail"}}
	taken.Spec.Ranges = []string{"192.0.2.30"}
	cluster.Pools = append(cluster.Pools, taken)
	var got []string
	plan := cluster.Plan("kubectl")
	for _, pool := range plan.Pools {
		got = append(got, fmt.Sprint(pool.Name, " ", pool.Spec.Serve.Namespaces, " ", len(pool.Spec.Ranges), " ", pool.Spec.Ranges[0]))
	}
	want := []string{
		"external-ips-mail-2 [mail] 1 192.0.2.7-192.0.2.8", "external-ips-shared [mail shop] 1 192.168.0.2",
		"external-ips-shop [shop] 64 192.168.0.4", "external-ips-shop-2 [shop] 64 192.168.0.132", "external-ips-shop-3 [shop] 11 192.168.1.60",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if left, _ := plan.Left(); len(left) > 0 {
		t.Errorf("blocked: %v", left)
	}
}

// What is printed, word by word.
func TestPlan_Show(t *testing.T) {
	cluster := known(with(service("mail", "smtp", 25, "192.0.2.7")), with(service("shop", "web", 443, "192.0.2.7")),
		with(service("shop", "node", 80, "198.18.0.1")))
	var out bytes.Buffer
	if err := cluster.Plan("kubectl", "--context=my lab").Show(&out, []string{"kubectl", "--context=my lab"}, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"shop/web   192.0.2.7   external-ips-shared (new)  Move",
		"shop/node: Blocked: 198.18.0.1 is the InternalIP of Node/n1",
		"shop/web: note: the commands let it share 192.0.2.7 with Service/mail/smtp: ask the owners of the namespaces first",
		"kubectl '--context=my lab' apply -f - <<'EOF'\napiVersion: ccmadm.dev/v1alpha1\nkind: AddressPool\nmetadata:\n  name: external-ips-shared\n" +
			"spec:\n  autoAssign: false\n  ranges:\n  - 192.0.2.7\n  serve:\n    namespaces:\n    - mail\n    - shop\n",
		`kubectl '--context=my lab' -n shop patch service web --type merge -p '{"metadata":{"annotations":{"ccmadm.dev/addresses":"192.0.2.7",` +
			`"ccmadm.dev/share-key":"external-ips-192.0.2.7","ccmadm.dev/share-namespaces":"mail"}},` +
			`"spec":{"allocateLoadBalancerNodePorts":false,"type":"LoadBalancer"}}'`,
		"kubectl '--context=my lab' -n shop wait service/web --for=condition=ccmadm.dev/LoadBalancerReady --timeout=60s && \\\n" +
			`  kubectl '--context=my lab' -n shop patch service web --type merge -p '{"spec":{"externalIPs":null}}'`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not printed:\n%s", want, out.String())
		}
	}
}

// Nothing to do, and nothing to do it with.
func TestPlan_Empty(t *testing.T) {
	var out bytes.Buffer
	err := known(with(service("shop", "web", 443))).Plan("kubectl").Show(&out, nil, true)
	if err != nil || out.String() != "No Service has externalIPs.\n" {
		t.Errorf("%v: %s", err, out.String())
	}
	cluster := known(with(service("shop", "web", 443, "192.0.2.7")))
	cluster.Defined, cluster.Pools = false, nil
	if got := cluster.Plan("kubectl"); got.Services[0].Action != Blocked || len(got.Pools) > 0 ||
		!strings.Contains(got.Services[0].Do, "`ccmadm apply` on a control plane") {
		t.Errorf("without the definition: %+v", got)
	}
	cluster = known(with(service("shop", "web", 443, "192.0.2.7")))
	cluster.Agents = nil
	if got := cluster.Plan("kubectl"); len(got.Notes) != 1 || got.Services[0].Action != Move ||
		!strings.Contains(got.Notes[0], "`ccmadm apply -f FILE` with nodeAgent: {enabled: true}") {
		t.Errorf("without agents: %+v", got)
	}
}

// broken is an API server that answers one kind with an error, and all else with nothing.
type broken struct {
	client.Reader
	kind string
	err  error
}

func (b broken) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if strings.Contains(fmt.Sprintf("%T", list), "."+b.kind+"List") {
		return b.err
	}
	return nil
}

func (b broken) Get(_ context.Context, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	if b.kind == "ConfigMap" {
		return b.err
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "kube-proxy")
}

// What cannot be asked for is an error, whatever it is, and never taken for what is not there.
func TestRead_Errors(t *testing.T) {
	for _, err := range []error{
		apierrors.NewServiceUnavailable("etcd is gone"), apierrors.NewTooManyRequests("later", 1), context.DeadlineExceeded,
		apierrors.NewForbidden(schema.GroupResource{}, "x", nil),
	} {
		for _, kind := range []string{
			"Service", "IPAddress", "Node", "Namespace", "ServiceCIDR", "EndpointSlice", "AddressPool", "BGPPeer", "NodeAgent", "ConfigMap",
		} {
			got, read := Read(t.Context(), broken{kind: kind, err: err}, "192.0.2.101")
			if read == nil || got != nil || !strings.Contains(read.Error(), kind) {
				t.Errorf("%s: %v: got %+v, %v", kind, err, got, read)
			}
		}
	}
	undefined := apierrors.NewNotFound(schema.GroupResource{Resource: "addresspools"}, "")
	if got, err := Read(t.Context(), broken{kind: "AddressPool", err: undefined}, "192.0.2.101"); err != nil || got.Defined {
		t.Errorf("no AddressPools: %+v, %v", got, err)
	}
}
