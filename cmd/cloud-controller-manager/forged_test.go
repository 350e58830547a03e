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
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

type csrSpec = certificatesv1.CertificateSigningRequestSpec

// forgery is a request that must not be approved. Its requester is who an attacker can be.
type forgery struct {
	what string
	as   string // the Node whose kubelet asks; empty: the holder of a bootstrap token
	node string // whose name it is for; empty: the requester's
	ip   string // empty: none
	// change makes it what it is. Without, it asks for the Node's name and the address.
	change func(*req, *csrSpec)
	// want is a pattern of the Event's reason; denied: the API server denies it; unseen: the approver may not approve it, and does
	// not look.
	want string
}

const denied, unseen = "denied", "unseen"

// trial is a cluster in which kube-controller-manager signs what is approved.
type trial struct {
	*testing.T

	admin    *kubernetes.Clientset
	roots    *x509.CertPool
	kubelets map[string]*kubernetes.Clientset // by Node; "" is the holder of a bootstrap token
	forged   map[types.UID]string
	denied   int
	flood    map[types.UID]string
	honest   []time.Duration
}

func newTrial(t *testing.T) *trial {
	t.Helper()
	certificate, key := signingCA(t)
	plane.Controllers(t, "--controllers=certificatesigningrequest-signing-controller",
		"--cluster-signing-cert-file="+certificate, "--cluster-signing-key-file="+key)
	pemBytes, err := os.ReadFile(certificate)
	if err != nil {
		t.Fatal(err)
	}
	admin := rest.CopyConfig(plane.Config)
	admin.QPS = -1
	tr := &trial{
		T: t, admin: client(t, admin), roots: x509.NewCertPool(), kubelets: map[string]*kubernetes.Clientset{},
		forged: map[types.UID]string{}, flood: map[types.UID]string{},
	}
	tr.roots.AppendCertsFromPEM(pemBytes)
	tr.kubelets[""] = client(t, bootstrapToken(t, tr.admin))
	tr.cluster()
	t.Cleanup(func() { // the next test's approver would look at them
		if err := tr.admin.CertificatesV1().CertificateSigningRequests().DeleteCollection(context.WithoutCancel(t.Context()),
			metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
	})
	return tr
}

// kubelet is the client of that of a Node, without a limit, as an attacker's.
func (tr *trial) kubelet(node string) *kubernetes.Clientset {
	tr.Helper()
	if c := tr.kubelets[node]; c != nil {
		return c
	}
	config, err := plane.User("system:node:"+node, "system:nodes")
	if err != nil {
		tr.Fatal(err)
	}
	config.QPS = -1
	tr.kubelets[node] = client(tr.T, config)
	return tr.kubelets[node]
}

// forge makes the requests, and waits until the approver has looked at each.
func (tr *trial) forge(list ...forgery) {
	tr.Helper()
	tr.held(tr.ask(list...))
}

// ask makes the requests, and returns those that the approver is to look at.
func (tr *trial) ask(list ...forgery) map[types.UID]forgery {
	tr.Helper()
	waiting := map[types.UID]forgery{}
	for _, f := range list {
		node := f.node
		if node == "" {
			node = f.as
		}
		csr, err := tr.kubelet(f.as).CertificatesV1().CertificateSigningRequests().Create(tr.Context(), signed(tr.T, node, f.ip, f.change),
			metav1.CreateOptions{})
		switch {
		case err != nil && f.want != denied:
			tr.Errorf("%s: %v", f.what, err)
		case err != nil:
			tr.denied++
		case f.want == denied:
			tr.Errorf("%s: the API server takes it", f.what)
		default:
			tr.forged[csr.UID] = f.what
			if f.want != unseen {
				waiting[csr.UID] = f
			}
		}
	}
	return waiting
}

// held waits for an Event about each, and compares its reason.
func (tr *trial) held(waiting map[types.UID]forgery) {
	tr.Helper()
	var last error
	eventually(tr.T, "all forged requests are judged", func(ctx context.Context) error {
		events, err := tr.admin.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=CertificateSigningRequest"})
		if err != nil {
			return errors.Join(last, err)
		}
		for _, e := range events.Items {
			f, is := waiting[e.InvolvedObject.UID]
			if is && regexp.MustCompile("^("+f.want+")$").MatchString(e.Reason) {
				delete(waiting, e.InvolvedObject.UID)
			}
		}
		for uid, f := range waiting {
			got := "none"
			for _, e := range events.Items {
				if e.InvolvedObject.UID == uid {
					got = e.Reason + ": " + e.Message
				}
			}
			err = errors.Join(err, fmt.Errorf("%s: want an Event %s, got %s", f.what, f.want, got))
		}
		last = err
		return err
	})
}

// serves has an honest kubelet ask, and waits for the certificate.
func (tr *trial) serves(node, ip string, names ...string) {
	tr.Helper()
	csr := signed(tr.T, node, ip, func(r *req, _ *csrSpec) { r.DNSNames = append(r.DNSNames, names...) })
	began := time.Now()
	csr, err := tr.kubelet(node).CertificatesV1().CertificateSigningRequests().Create(tr.Context(), csr, metav1.CreateOptions{})
	if err != nil {
		tr.Fatal(err)
	}
	eventually(tr.T, fmt.Sprintf("%s has a certificate for %s %v", node, ip, names), func(ctx context.Context) error {
		now, err := tr.admin.CertificatesV1().CertificateSigningRequests().Get(ctx, csr.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		block, _ := pem.Decode(now.Status.Certificate)
		if block == nil {
			return fmt.Errorf("it has conditions %v", now.Status.Conditions)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return err
		}
		for _, host := range append([]string{node, ip}, names...) {
			if _, err := certificate.Verify(x509.VerifyOptions{Roots: tr.roots, DNSName: host}); err != nil {
				tr.Errorf("the certificate of %s: %v", node, err)
			}
		}
		return nil
	})
	tr.honest = append(tr.honest, time.Since(began))
}

// expect looks at all that was forged once more, and tells how many there were.
func (tr *trial) expect(least int) {
	tr.Helper()
	list, err := tr.admin.CertificatesV1().CertificateSigningRequests().List(tr.Context(), metav1.ListOptions{})
	if err != nil {
		tr.Fatal(err)
	}
	seen, approved := 0, 0
	for _, csr := range list.Items {
		what, forged := tr.forged[csr.UID]
		flood, flooded := tr.flood[csr.UID]
		if !forged && !flooded {
			continue
		}
		seen++
		if len(csr.Status.Conditions) > 0 || len(csr.Status.Certificate) > 0 {
			approved++
			tr.Errorf("%s%s: conditions %v, certificate %s", what, flood, csr.Status.Conditions, csr.Status.Certificate)
		}
	}
	if seen != len(tr.forged)+len(tr.flood) {
		tr.Errorf("%d requests of %d are there", seen, len(tr.forged)+len(tr.flood))
	}
	if all := len(tr.forged) + tr.denied; all < least {
		tr.Errorf("%d forged requests, want %d", all, least)
	}
	slices.Sort(tr.honest)
	tr.Logf("%d forged requests (%d of them denied by the API server) and %d more in a flood, %d approved; %d honest, approved and signed "+
		"within %s, median %s", len(tr.forged)+tr.denied, tr.denied, len(tr.flood), approved, len(tr.honest),
		tr.honest[len(tr.honest)-1].Round(time.Millisecond), tr.honest[len(tr.honest)/2].Round(time.Millisecond))
}

// signingCA writes the certificate and the key of a CA.
func signingCA(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().AddDate(2, 0, 0), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certificate, key = filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key")
	for file, block := range map[string]*pem.Block{
		certificate: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: encoded},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certificate, key
}
