package externalips

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// A tenant writes lines into an annotation that a message quotes. They do not become lines of the output, which look like commands,
// and no escape sequence reaches the terminal.
func TestPlan_TextOfTenants(t *testing.T) {
	const evil = "x\n\n# shop/web\nkubectl delete namespace kube-system\n\x1b[2J"
	cluster := known(with(service("shop", "web", 443, "192.0.2.7"), annotated(v1alpha1.PoolAnnotation, evil)),
		with(service("shop", "api", 443, "192.0.2.8"), annotated(v1alpha1.ShareNamespacesAnnotation, evil)),
		with(service("shop", "a", 80, "192.0.2.9"), annotated(v1alpha1.ShareKeyAnnotation, evil)),
		with(service("shop", "b", 81, "192.0.2.9"), annotated(v1alpha1.ShareKeyAnnotation, evil)),
		with(service("shop", "c", 81, "192.0.2.77")), with(service("shop", "d", 81, "198.18.0.1")))
	cluster.Agents[0].Status.Interfaces[0].Name = evil
	cluster.Nodes[0].Status.Addresses[0].Type = evil
	plan := cluster.Plan("kubectl")
	var out bytes.Buffer
	if err := plan.Show(&out, []string{"kubectl"}, true); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "kubectl delete") || strings.HasPrefix(line, "# shop/web") || strings.Contains(line, "\x1b") {
			t.Errorf("line %q", line)
		}
	}
	for _, s := range plan.Services {
		if strings.ContainsAny(s.Reason+s.Do+strings.Join(s.Notes, ""), "\n\x1b") {
			t.Errorf("%s: %q %q", s.Service, s.Reason, s.Notes)
		}
	}
}

// Services that have no address in common do not consent to each other, also where a third one has addresses with both.
func TestPlan_ConsentOfPairsOnly(t *testing.T) {
	dual := families(corev1.IPv4Protocol, corev1.IPv6Protocol)
	plan := known(with(service("a", "web", 80, "192.0.2.7")), with(service("b", "both", 81, "192.0.2.7", "2001:db8::7"), dual),
		with(service("c", "mail", 25, "2001:db8::7"), families(corev1.IPv6Protocol))).Plan("kubectl")
	for i, lists := range []string{`share-namespaces":"b"`, `share-namespaces":"a,c"`, `share-namespaces":"b"`} {
		s := plan.Services[i]
		if s.Action != Move || !strings.Contains(s.Commands[0], lists) {
			t.Errorf("%s: %s %s, commands %s; want %s", s.Service, s.Action, s.Reason, s.Commands, lists)
		}
	}
	if notes := fmt.Sprint(plan.Services[0].Notes); strings.Contains(notes, "c/mail") {
		t.Errorf("notes of a/web: %s", notes)
	}
}

// An address that a load balancer of another program has is not given a second one.
func TestPlan_AddressOfAnotherProgram(t *testing.T) {
	class := "example.com/lb"
	other := with(service("infra", "ingress", 443), balanced("192.0.2.7"), func(s *corev1.Service) { s.Spec.LoadBalancerClass = &class })
	plan := known(other, with(service("shop", "web", 80, "192.0.2.7"))).Plan("kubectl")
	if got := plan.Services[0]; got.Action != Blocked || !strings.Contains(got.Reason, "Service/infra/ingress") || len(plan.Pools) > 0 {
		t.Errorf("%+v, pools %v", got, plan.Pools)
	}
}

// answers has an error for each of some kinds.
type answers struct {
	broken
	errs map[string]error
}

func (a answers) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	for kind, err := range a.errs {
		if strings.Contains(fmt.Sprintf("%T", list), "."+kind+"List") {
			return err
		}
	}
	return nil
}

// That one kind of ours is not defined says nothing about another one that cannot be asked for, or is there.
func TestRead_PartlyDefined(t *testing.T) {
	undefined := apierrors.NewNotFound(schema.GroupResource{Resource: "nodeagents"}, "")
	got, err := Read(t.Context(), answers{errs: map[string]error{
		"AddressPool": apierrors.NewServiceUnavailable("etcd is gone"), "NodeAgent": undefined,
	}}, "192.0.2.101")
	if err == nil || got != nil || !strings.Contains(err.Error(), "AddressPools") {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err = Read(t.Context(), answers{errs: map[string]error{"NodeAgent": undefined, "BGPPeer": undefined}}, "192.0.2.101"); err != nil || !got.Defined {
		t.Errorf("AddressPools alone: got %+v, %v", got, err)
	}
}

// Thousands of Services, Nodes and pools.
func TestPlan_Many(t *testing.T) {
	var services []corev1.Service
	for i := range 3000 {
		services = append(services, with(service(fmt.Sprint("ns", i%50), fmt.Sprint("s", i), int32(1+i%5000), fmt.Sprintf("192.168.%d.%d", i/200, i%200+1))))
	}
	cluster := known(services...)
	for i := range 200 {
		node := corev1.Node{}
		node.Name = fmt.Sprint("w", i)
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("198.18.1.%d", i)}}
		cluster.Nodes = append(cluster.Nodes, node)
	}
	began := time.Now()
	plan := cluster.Plan("kubectl")
	took := time.Since(began)
	if left, all := plan.Left(); len(left) > 0 || len(all) != 3000 || took > time.Minute {
		t.Errorf("%s; blocked %d of %d", took, len(left), len(all))
	}
}
