package serving

import (
	"errors"
	"fmt"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
)

// kubeadmFile is the ClusterConfiguration of a cluster with an OIDC issuer and an etcd of its own.
const kubeadmFile = `apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
controlPlaneEndpoint: "api.nodes.example:6443"
apiServer:
  certSANs: [spare.nodes.example, "*.api.nodes.example"]
  extraArgs: [{name: oidc-issuer-url, value: "https://oidc.nodes.example/realms/x"}]
etcd: {external: {endpoints: ["https://etcd.nodes.example:2379"]}}
`

// checked is an approver beside the Node of the forgery, and the request. It believes all names below nodes.example.
func checked(t *testing.T, f *forgery, made time.Duration) (*Approver, *fake.Clientset, *certificatesv1.CertificateSigningRequest) {
	t.Helper()
	f.node.CreationTimestamp = metav1.NewTime(time.Unix(1e9, 0))
	client := fake.NewClientset(f.node, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: kubeadmConfig},
		Data:       map[string]string{"ClusterConfiguration": kubeadmFile},
	})
	a, err := New(Settings{
		Client: client, Nodes: informers.NewSharedInformerFactory(client, 0).Core().V1().Nodes().Informer(),
		Prover: listed(*f.identity), Names: Names{"*.nodes.example"}, Recorder: record.NewFakeRecorder(10),
	})
	if err != nil {
		t.Fatal(err)
	}
	f.sign(t)
	return a, client, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "csr-1", CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(made))}, Spec: *f.spec,
	}
}

func expectHeld(t *testing.T, err error, want string) {
	t.Helper()
	var held *Hold
	if !errors.As(err, &held) || held.Reason != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// A request is held that came before its Node: its kubelet asks for what the Node has, and so it comes later.
func TestCheck_OlderThanNode(t *testing.T) {
	a, _, csr := checked(t, honest(), -time.Second)
	expectHeld(t, a.check(t.Context(), csr), "OlderThanNode")
	a, _, csr = checked(t, honest(), 0)
	if err := a.check(t.Context(), csr); err != nil {
		t.Errorf("an honest request is held: %v", err)
	}
}

// Whom API servers connect to by a URL of kubeadm's configuration is reserved, and so is what their certificates cover.
func TestCheck_ReservedByKubeadm(t *testing.T) {
	for _, name := range []string{"api", "spare", "eu.api", "oidc", "etcd"} {
		f := honest()
		f.called(name + ".nodes.example")
		f.identity.Addresses = nil
		f.asked.IPAddresses = nil
		a, _, csr := checked(t, f, 0)
		expectHeld(t, a.check(t.Context(), csr), "ReservedName")
	}
}

// What is refused anyway costs one question, however many names it has, and whatever stands in them.
func TestCheck_FewQuestions(t *testing.T) {
	for what, names := range map[string]func() []string{
		"names of others": func() []string {
			var list []string
			for i := range most {
				list = append(list, fmt.Sprintf("vault-%d", i))
			}
			return list[1:]
		},
		"names that no question can have": func() []string { return []string{"w1,metadata.namespace=x", "w1.a/../b"} },
	} {
		f := honest()
		f.asked.DNSNames = names()
		a, client, csr := checked(t, f, 0)
		var held *Hold
		if err := a.check(t.Context(), csr); !errors.As(err, &held) {
			t.Errorf("%s: got %v, want it held", what, err)
		}
		if got := len(client.Actions()); got > 1 {
			t.Errorf("%s: the API server was asked %d times", what, got)
		}
	}
}
