package balancer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// createIn makes a Service in a namespace, which is made where it is not there. The Service goes with the test.
func (c *cluster) createIn(namespace, name string, changes ...func(*corev1.Service)) {
	c.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	_, err := c.client.CoreV1().Namespaces().Create(c.Context(), ns, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		c.Fatal(err)
	}
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
	for _, change := range changes {
		change(s)
	}
	services := c.client.CoreV1().Services(namespace)
	if _, err := services.Create(c.Context(), s, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() {
		ctx := context.WithoutCancel(c.Context())
		_, _ = services.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		_ = services.Delete(ctx, name, metav1.DeleteOptions{})
	})
}

// eventually waits until a Service of a namespace is as wanted, and returns it.
func (c *cluster) eventually(namespace, name string, wanted func(*corev1.Service) bool) *corev1.Service {
	c.Helper()
	var s *corev1.Service
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		var err error
		if s, err = c.client.CoreV1().Services(namespace).Get(c.Context(), name, metav1.GetOptions{}); err != nil {
			c.Fatal(err)
		}
		if wanted(s) {
			return s
		}
	}
	c.Fatalf("after a minute: annotations %v, status %+v", s.Annotations, s.Status)
	return nil
}

// lists sets the namespaces that Service share-a/web consents to; "": none.
func (c *cluster) lists(list string) {
	c.Helper()
	value := "null"
	if list != "" {
		value = `"` + list + `"`
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"%s":%s}}}`, v1alpha1.ShareNamespacesAnnotation, value)
	_, err := c.client.CoreV1().Services("share-a").Patch(c.Context(), "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		c.Fatal(err)
	}
}

// inNamespace is tenant without its namespace, which the API server fills in.
func inNamespace(port int32, lists string, more ...func(*corev1.Service)) func(*corev1.Service) {
	return func(s *corev1.Service) {
		tenant("", port, "k", lists)(s)
		for _, change := range more {
			change(s)
		}
	}
}

// Two tenants share an address while both consent. A third one does not get onto it. When the first withdraws, the other has
// another address, knows why, and stays there; when it consents again, nothing moves.
func TestCluster_SharedAcrossNamespaces(t *testing.T) {
	c := newCluster(t, addressPool("lan", "192.0.2.50-192.0.2.59"))
	const shared = "192.0.2.50"
	c.createIn("share-a", "web", inNamespace(443, "share-b", asks(shared)))
	c.eventually("share-a", "web", reasonIs(allocator.AnnouncedReason))

	c.createIn("share-b", "mail", inNamespace(25, ""))
	alone := address(c.eventually("share-b", "mail", reasonIs(allocator.AnnouncedReason)))
	c.createIn("share-b", "both", inNamespace(587, "share-a"))
	c.eventually("share-b", "both", func(s *corev1.Service) bool {
		return hasAddress(shared)(s) && reasonIs(allocator.AnnouncedReason)(s)
	})
	c.createIn("share-c", "hostile", inNamespace(22, "share-a,share-b", asks(shared)))
	s := c.eventually("share-c", "hostile", reasonIs("SharingConflict"))
	if address(s) != "" || alone == shared {
		t.Errorf("the hostile Service has %q, and one without consent %q", address(s), alone)
	}
	want := []types.NamespacedName{{Namespace: "share-a", Name: "web"}, {Namespace: "share-b", Name: "both"}}
	if got := c.claimed(shared).Owners; !slices.Equal(got, want) {
		t.Errorf("owners %v, want %v", got, want)
	}

	c.told()
	c.lists("")
	s = c.eventually("share-b", "both", func(s *corev1.Service) bool {
		return address(s) != "" && address(s) != shared && reasonIs(allocator.AnnouncedReason)(s)
	})
	moved := address(s)
	told := c.told()
	for began := time.Now(); !strings.Contains(told, "SharingConflict") && time.Since(began) < time.Minute; told += c.told() {
		time.Sleep(5 * time.Millisecond)
	}
	why := "share " + shared + ": annotation ccmadm.dev/share-namespaces of Service/share-a/web does not list share-b"
	if strings.Count(told, why) != 1 {
		t.Errorf("Events: %s", told)
	}
	c.lists("share-b")
	time.Sleep(2 * time.Second)
	first := c.eventually("share-a", "web", hasAddress(shared))
	later := c.eventually("share-b", "both", hasAddress(moved))
	c.lead() // another leader has no other opinion
	time.Sleep(2 * time.Second)
	for _, before := range []*corev1.Service{first, later} {
		now := c.eventually(before.Namespace, before.Name, reasonIs(allocator.AnnouncedReason))
		if now.ResourceVersion != before.ResourceVersion {
			t.Errorf("Service/%s was written: %v, before %v", before.Name, now.Status, before.Status)
		}
	}
}

// A list that cannot be read says so in the condition and in an Event, and takes no address from its Service. The Service that
// shared with it has no share in what it does not consent to any more.
func TestCluster_MalformedNamespaces(t *testing.T) {
	c := newCluster(t, addressPool("lan", "192.0.2.50"))
	c.createIn("share-a", "web", inNamespace(443, "share-b"))
	c.createIn("share-b", "mail", inNamespace(25, "share-a"))
	for _, name := range [][2]string{{"share-a", "web"}, {"share-b", "mail"}} {
		c.eventually(name[0], name[1], func(s *corev1.Service) bool {
			return hasAddress("192.0.2.50")(s) && reasonIs(allocator.AnnouncedReason)(s)
		})
	}
	c.lists("*")
	s := c.eventually("share-a", "web", reasonIs("SharingConflict"))
	const want = `annotation ccmadm.dev/share-namespaces: "*" would let every namespace use the address: list the namespaces by name`
	first := c.claimed("192.0.2.50").Owners[0].String()
	if !strings.HasPrefix(allocator.Condition(s).Message, want) || address(s) != "192.0.2.50" || first != "share-a/web" {
		t.Errorf("it has %s, the first owner is %s, and the condition says %s", address(s), first, allocator.Condition(s).Message)
	}
	s = c.eventually("share-b", "mail", reasonIs("PoolExhausted"))
	if why := "annotation ccmadm.dev/share-namespaces of Service/share-a/web does not list share-b"; address(s) != "" ||
		!strings.Contains(allocator.Condition(s).Message, why) {
		t.Errorf("the other one has %q: %s", address(s), allocator.Condition(s).Message)
	}
	c.lists("share-b")
	c.eventually("share-b", "mail", hasAddress("192.0.2.50"))
}
