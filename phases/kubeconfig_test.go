package phases

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/kubeadm"
	"github.com/ccmadm/ccmadm/phases/machine"

	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/pkiutil"
)

// newCA writes a CA as kubeadm does.
func newCA(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cert, key, err := pkiutil.NewCertificateAuthority(&pkiutil.CertConfig{Config: certutil.Config{CommonName: "kubernetes"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := pkiutil.WriteCertAndKey(dir, "ca", cert, key); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestSignKubeconfig(t *testing.T) {
	const server = "https://198.18.0.2:6443"
	dir := newCA(t)
	data, err := signKubeconfig(dir, server, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "ccm.conf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	certs, err := certutil.ParseCertsPEM(config.CertData)
	if err != nil {
		t.Fatal(err)
	}
	subject := certs[0].Subject
	if subject.CommonName != "system:cloud-controller-manager" || len(subject.Organization) != 0 {
		t.Errorf("identity is %s, want the user alone, in no group", subject)
	}
	if len(certs[0].ExtKeyUsage) != 1 || certs[0].ExtKeyUsage[0] != x509.ExtKeyUsageClientAuth {
		t.Errorf("usages are %v, want client authentication only", certs[0].ExtKeyUsage)
	}

	for _, tc := range []struct {
		name, path, ca, server string
		want                   bool
	}{
		{"as signed", path, dir, server, true},
		{"another server", path, dir, "https://198.18.0.3:6443", false},
		{"another CA", path, newCA(t), server, false},
		{"no file", path + "x", dir, server, false},
	} {
		if got := kubeconfigLasts(tc.path, filepath.Join(tc.ca, "ca.crt"), tc.server, time.Now()); got != tc.want {
			t.Errorf("%s: valid = %t, want %t", tc.name, got, tc.want)
		}
	}
}

func TestSignKubeconfig_ExternalCA(t *testing.T) {
	dir := newCA(t)
	if err := os.Remove(filepath.Join(dir, "ca.key")); err != nil {
		t.Fatal(err)
	}
	_, err := signKubeconfig(dir, "https://198.18.0.2:6443", time.Now())
	var known *finding.Error
	if !asKnown(err, &known) || !strings.Contains(known.Hint, "external CA") {
		t.Errorf("got %v, want an error that says what to do with an external CA", err)
	}
}

func TestClusterName(t *testing.T) {
	const cluster = initConfig + "---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\ncertificatesDir: /pki\n"
	ca := newCA(t)
	for _, tt := range []struct {
		name    string
		kubeadm string
		said    string
		record  string
		want    string
	}{
		{name: "the settings' name", kubeadm: "clusterName: theirs\n", said: "ours", want: "ours"},
		{name: "the name that the user gave kubeadm", kubeadm: "clusterName: theirs\n", want: "theirs"},
		{name: "derived from the CA", kubeadm: "clusterName: kubernetes\n", want: derivedName(t, ca)},
		{name: "derived again from the same CA", want: derivedName(t, ca)},
		{name: "what was found before the CA was replaced", record: "cluster-of-the-old-ca", want: "cluster-of-the-old-ca"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := newMachine(t)
			copyCA(t, ca, m.Path("/pki"))
			if tt.record != "" {
				put(t, m, machine.RecordFile, "apiVersion: ccmadm.dev/v1alpha1\nkind: Record\nconfiguration: {clusterName: "+tt.record+"}\n")
			}
			d, _ := run{config: cluster + tt.kubeadm, options: Options{Flags: v1alpha1.CloudConfiguration{ClusterName: tt.said}}}.must(t, m)
			s, err := d.Settings(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got, err := clusterName(d, s); err != nil || got != tt.want {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func derivedName(t *testing.T, ca string) string {
	t.Helper()
	certs, err := certutil.CertsFromFile(filepath.Join(ca, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	return "cluster-" + strings.TrimPrefix(kubeadm.PinOf(certs[0]), "sha256:")[:10]
}

// copyCA puts a CA where a machine keeps it.
func copyCA(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}
