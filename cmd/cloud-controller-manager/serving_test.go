package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/apply"
	"github.com/ccmadm/ccmadm/manifests/manifeststest"
	"github.com/ccmadm/ccmadm/templates"
)

// served lists two machines that are there, and one that is not.
const served = `apiVersion: ccmadm.dev/v1alpha1
kind: Inventory
metadata: {site: ber1, serial: %d}
policy: {unknownNodes: adopt}
machines:
- {id: r1, hostname: w1, addresses: [{type: InternalIP, address: 198.18.1.1}%s]}
- {id: r2, hostname: w2, addresses: [{type: InternalIP, address: 198.18.1.2}]}
- {id: r3, match: {systemUUID: ` + uuid1 + `}, addresses: [{type: InternalIP, address: 198.18.1.3}]}
`

// permitted applies what ccmadm does for the provider with --serving-certificates, until the test ends.
func permitted(t *testing.T, provider string, mode templates.Mode) {
	t.Helper()
	p, err := templates.Load(provider)
	if err != nil {
		t.Fatal(err)
	}
	v := manifeststest.Values(p, mode, "v1.36.0", true)
	v.ServingCertificates = true
	objects, err := manifests.RBAC(p, v)
	if err != nil {
		t.Fatal(err)
	}
	applier, err := apply.NewCluster(plane.Config, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := applier.Apply(t.Context(), apply.RBAC, objects); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := applier.Remove(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

// signed is what an honest kubelet of a Node asks for, with a change. Without an ip it asks for none.
func signed(t *testing.T, node, ip string, change func(*x509.CertificateRequest, *certificatesv1.CertificateSigningRequestSpec),
) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	asked := &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
		DNSNames: []string{node},
	}
	if ip != "" {
		asked.IPAddresses = []net.IP{net.ParseIP(ip)}
	}
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"}}
	csr.Spec.SignerName = certificatesv1.KubeletServingSignerName
	csr.Spec.Usages = []certificatesv1.KeyUsage{"digital signature", "server auth"}
	if change != nil {
		change(asked, &csr.Spec)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, asked, key)
	if err != nil {
		t.Fatal(err)
	}
	csr.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	return csr
}

// asks has the kubelet of a Node ask for a certificate, with a change to what an honest one asks for.
func asks(t *testing.T, c *kubernetes.Clientset, node, ip string, change func(*x509.CertificateRequest,
	*certificatesv1.CertificateSigningRequestSpec),
) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	csr, err := c.CertificatesV1().CertificateSigningRequests().Create(t.Context(), signed(t, node, ip, change), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return csr
}

func approved(ctx context.Context, t *testing.T, csr *certificatesv1.CertificateSigningRequest) error {
	t.Helper()
	now, err := client(t, plane.Config).CertificatesV1().CertificateSigningRequests().Get(ctx, csr.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(now.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateApproved
	}) {
		return errors.New("it is not approved")
	}
	return nil
}

// passes waits until a second is over: the API server writes when something was made in seconds.
func passes(t *testing.T, second metav1.Time) {
	t.Helper()
	eventually(t, "the second is over", func(context.Context) error {
		if !time.Now().After(second.Add(time.Second)) {
			return errors.New("it is not")
		}
		return nil
	})
}

func becomesApproved(t *testing.T, csr *certificatesv1.CertificateSigningRequest) {
	t.Helper()
	eventually(t, csr.Name+" is approved", func(ctx context.Context) error { return approved(ctx, t, csr) })
}

// staysPending waits for the Event that says why.
func staysPending(t *testing.T, csr *certificatesv1.CertificateSigningRequest, reason string) {
	t.Helper()
	e := event(t, &corev1.Node{ObjectMeta: csr.ObjectMeta}, reason)
	if strings.ContainsAny(e.Message, "\x1b\a\n") || len(e.Message) > 1024 {
		t.Errorf("the Event has %d bytes, and says %q", len(e.Message), e.Message)
	}
	if approved(t.Context(), t, csr) == nil {
		t.Errorf("%s is approved", csr.Name)
	}
}

func onlyRegisters(t *testing.T, name, ip string) {
	t.Helper()
	registers(t, name, ip, func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}, {Type: corev1.NodeHostName, Address: name}}
	})
}

// With the credentials of kubelets, against a real API server, and the permissions that ccmadm gives.
func TestCluster_ServingCertificates(t *testing.T) {
	publish(t, fmt.Sprintf(served, 1, ""))
	permitted(t, "onprem", templates.StaticPod)
	kubeconfig, err := plane.Kubeconfig(v1alpha1.StaticPodUser)
	if err != nil {
		t.Fatal(err)
	}
	start(t, kubeconfig, "--cloud-config="+cloudConfig(t), "--approve-serving-certificates",
		"--node-status-update-frequency=1s")
	w1 := kubeletOf(t, "w1")
	early := asks(t, w1, "w1", "198.18.1.1", nil)
	staysPending(t, early, "NoNode")
	passes(t, early.CreationTimestamp)
	onlyRegisters(t, "w1", "198.18.1.1")
	onlyRegisters(t, "w2", "198.18.1.2")
	onlyRegisters(t, "adopted", "198.18.1.4")
	initialized(t, "w1")
	becomesApproved(t, asks(t, w1, "w1", "198.18.1.1", nil))
	staysPending(t, early, "OlderThanNode")
	initialized(t, "w2")
	adopted := initialized(t, "adopted")

	t.Run("forged", func(t *testing.T) { forgeries(t, w1) })
	t.Run("a kubelet that shows the hardware of a machine that is away", func(t *testing.T) {
		kubelet := kubeletOf(t, adopted.Name)
		ip := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"198.18.1.3"}}}`, v1alpha1.ProvidedNodeIPAnnotation)
		if _, err := kubelet.CoreV1().Nodes().Patch(t.Context(), adopted.Name, "application/merge-patch+json", ip, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		hardware := fmt.Appendf(nil, `{"status":{"nodeInfo":{"systemUUID":%q}}}`, uuid1)
		if _, err := kubelet.CoreV1().Nodes().PatchStatus(t.Context(), adopted.Name, hardware); err != nil {
			t.Fatal(err)
		}
		staysPending(t, asks(t, kubelet, "adopted", "198.18.1.3", nil), "UnprovenIdentity")
	})
	t.Run("an address that the machine gets", func(t *testing.T) {
		csr := asks(t, w1, "w1", "198.18.1.9", nil)
		staysPending(t, csr, "AddressNotOfNode")
		publish(t, fmt.Sprintf(served, 2, ", {type: ExternalIP, address: 198.18.1.9}"))
		becomesApproved(t, csr)
	})
	t.Run("what kubelets may not write any more", func(t *testing.T) { policyHolds(t, w1) })
	t.Run("another signer", func(t *testing.T) {
		config, err := plane.User(v1alpha1.StaticPodUser)
		if err != nil {
			t.Fatal(err)
		}
		csr := asks(t, client(t, plane.Config), "w1", "198.18.1.1", func(_ *x509.CertificateRequest, spec *certificatesv1.CertificateSigningRequestSpec) {
			spec.SignerName, spec.Usages = certificatesv1.KubeAPIServerClientSignerName, []certificatesv1.KeyUsage{"client auth"}
		})
		csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "x",
		}}
		_, err = client(t, config).CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), csr.Name, csr, metav1.UpdateOptions{})
		if !apierrors.IsForbidden(err) {
			t.Errorf("the manager may approve it: %v", err)
		}
	})
}

func forgeries(t *testing.T, w1 *kubernetes.Clientset) {
	type spec = certificatesv1.CertificateSigningRequestSpec
	for name, c := range map[string]struct {
		change func(*x509.CertificateRequest, *spec)
		want   string
	}{
		"another Node's address": {func(r *x509.CertificateRequest, _ *spec) {
			r.IPAddresses = append(r.IPAddresses, net.ParseIP("198.18.1.2"))
		}, "AddressNotOfNode"},
		"an absent machine's address": {func(r *x509.CertificateRequest, _ *spec) {
			r.IPAddresses = []net.IP{net.ParseIP("198.18.1.3")}
		}, "AddressNotOfNode"},
		"the API server's": {func(r *x509.CertificateRequest, _ *spec) {
			r.DNSNames = append(r.DNSNames, "kubernetes.default.svc")
		}, "ReservedName"},
		"a wildcard": {func(r *x509.CertificateRequest, _ *spec) { r.DNSNames = []string{"*.ber1.example"} }, "WrongNames"},
		"escape sequences, and much of them": {func(r *x509.CertificateRequest, _ *spec) {
			r.DNSNames = []string{"w1\x1b]0;y\a\x1b[2J\n" + strings.Repeat("x", 5000)}
		}, "WrongNames"},
		"client auth": {func(_ *x509.CertificateRequest, s *spec) {
			s.Usages = []certificatesv1.KeyUsage{"digital signature", "server auth", "client auth"}
		}, "WrongUsages"},
		"ten years":         {func(_ *x509.CertificateRequest, s *spec) { s.ExpirationSeconds = new(int32(315360000)) }, "TooLong"},
		"an e-mail address": {func(r *x509.CertificateRequest, _ *spec) { r.EmailAddresses = []string{"root@w1"} }, "WrongNames"},
	} {
		t.Run(name, func(t *testing.T) { staysPending(t, asks(t, w1, "w1", "198.18.1.1", c.change), c.want) })
	}
	config, err := plane.User("somebody", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	staysPending(t, asks(t, client(t, config), "w1", "198.18.1.1", nil), "WrongRequester")
}

// policyHolds tries what a kubelet would have to do before it asks.
func policyHolds(t *testing.T, w1 *kubernetes.Clientset) {
	policyHoldsFor(t, w1, "w1")
	ready := []byte(`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
	if _, err := w1.CoreV1().Nodes().PatchStatus(t.Context(), "w1", ready); err != nil {
		t.Errorf("an honest report is refused: %v", err)
	}
	_, err := kubeletOf(t, "evader").CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "evader"}, Spec: corev1.NodeSpec{ProviderID: "onprem://ber1/r3"},
	}, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("a Node comes without taint: %v", err)
	}
}
