package serving

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

// plane is what the tests named TestCluster... share.
var plane *manifeststest.ControlPlane

func TestMain(m *testing.M) { os.Exit(manifeststest.Main(m, &plane)) }

// listed proves what it is given of any Node.
type listed Identity

func (l listed) Identify(context.Context, *corev1.Node) (Identity, error) { return Identity(l), nil }

// counted counts what is asked about the Node w1.
type counted struct {
	http.RoundTripper
	looks atomic.Int32
}

func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/api/v1/nodes/w1") {
		c.looks.Add(1)
	}
	return c.RoundTripper.RoundTrip(r)
}

// A kubelet that asks hundreds of times for somebody else's address has its newest requests judged, and holds up nobody.
func TestCluster_Flood(t *testing.T) {
	const many = 300
	admin := rest.CopyConfig(plane.Config)
	admin.QPS = -1
	client := kubernetes.NewForConfigOrDie(admin)
	for name, address := range map[string]string{"w1": "198.18.0.1", "w2": "198.18.0.11"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		node.Spec.ProviderID = "onprem://ber1/" + name
		node, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		node.Spec.Taints = nil // the API server's, of a Node that is not ready
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		if _, err := client.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for range many {
		ask(t, admin, "w1", "198.18.0.99")
	}
	honest := ask(t, admin, "w2", "198.18.0.11")

	count := &counted{}
	limited := rest.CopyConfig(plane.Config) // twenty a second, as the manager's
	limited.Wrap(func(rt http.RoundTripper) http.RoundTripper { count.RoundTripper = rt; return count })
	approver, err := New(Settings{
		Client: kubernetes.NewForConfigOrDie(limited), Endpoint: "198.18.0.250", Recorder: record.NewFakeRecorder(many),
		Nodes:  informers.NewSharedInformerFactory(client, 0).Core().V1().Nodes().Informer(),
		Prover: listed{Proven: true, Addresses: []corev1.NodeAddress{{Address: "198.18.0.1"}, {Address: "198.18.0.11"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	go approver.Nodes.RunWithContext(t.Context())
	go approver.Run(t.Context())
	requests := client.CertificatesV1().CertificateSigningRequests()
	began := time.Now()
	for approved := false; !approved; time.Sleep(50 * time.Millisecond) {
		csr, err := requests.Get(t.Context(), honest.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		approved = len(csr.Status.Conditions) > 0
		if time.Since(began) > time.Minute { // that it waits for no others is seen by their looks, below
			t.Fatalf("it is not approved after %s, and %d looks at the other Node", time.Since(began), count.looks.Load())
		}
	}
	t.Logf("approved after %s", time.Since(began))
	time.Sleep(2 * time.Second)
	if looks := count.looks.Load(); looks == 0 || looks > 4*newest {
		t.Errorf("%d looks at the Node for %d requests, want some", looks, many)
	}
	newer := ask(t, admin, "w1", "198.18.0.1")
	for began := time.Now(); len(newer.Status.Conditions) == 0; time.Sleep(50 * time.Millisecond) {
		if newer, err = requests.Get(t.Context(), newer.Name, metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		if time.Since(began) > time.Minute {
			t.Fatal("a request after all those is not judged")
		}
	}
}

// ask has the kubelet of a Node ask for an address.
func ask(t *testing.T, admin *rest.Config, node, ip string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	f := honest()
	f.asked.Subject.CommonName, f.asked.DNSNames = "system:node:"+node, []string{node}
	f.asked.IPAddresses = []net.IP{net.ParseIP(ip)}
	f.sign(t)
	kubelet := rest.CopyConfig(admin)
	kubelet.Impersonate.UserName, kubelet.Impersonate.Groups = "system:node:"+node, []string{nodesGroup, "system:masters"}
	requests := kubernetes.NewForConfigOrDie(kubelet).CertificatesV1().CertificateSigningRequests()
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"}, Spec: *f.spec}
	csr, err := requests.Create(t.Context(), csr, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return csr
}

// sign puts what is asked for into the spec, unless a case has something else there.
func (f *forgery) sign(t *testing.T) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, f.asked, key)
	if err != nil {
		t.Fatal(err)
	}
	if f.spec.Request == nil {
		f.spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	}
}
