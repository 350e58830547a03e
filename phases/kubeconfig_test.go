package phases

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/kubeadm"

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
	data, err := signKubeconfig(dir, server)
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
		if got := kubeconfigValid(tc.path, filepath.Join(tc.ca, "ca.crt"), tc.server); got != tc.want {
			t.Errorf("%s: valid = %t, want %t", tc.name, got, tc.want)
		}
	}
}

func TestSignKubeconfig_ExternalCA(t *testing.T) {
	dir := newCA(t)
	if err := os.Remove(filepath.Join(dir, "ca.key")); err != nil {
		t.Fatal(err)
	}
	_, err := signKubeconfig(dir, "https://198.18.0.2:6443")
	var known *finding.Error
	if !asKnown(err, &known) || !strings.Contains(known.Hint, "external CA") {
		t.Errorf("got %v, want an error that says what to do with an external CA", err)
	}
}

func TestData_ClusterName(t *testing.T) {
	file := func(text string) *kubeadm.File {
		f, err := kubeadm.Parse("k.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	const cluster = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n"
	dir := newCA(t)
	named := func(text string, settings v1alpha1.CloudConfiguration) string {
		t.Helper()
		d := &Data{Kubeadm: file(cluster + "certificatesDir: " + dir + "\n" + text)}
		name, err := d.clusterName(&settings)
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	if got := named("clusterName: theirs", v1alpha1.CloudConfiguration{ClusterName: "ours"}); got != "ours" {
		t.Errorf("got %q, want the settings' name", got)
	}
	if got := named("clusterName: theirs", v1alpha1.CloudConfiguration{}); got != "theirs" {
		t.Errorf("got %q, want the name that the user gave kubeadm", got)
	}
	derived := named("clusterName: kubernetes", v1alpha1.CloudConfiguration{})
	if !strings.HasPrefix(derived, "cluster-") || len(derived) != len("cluster-")+10 {
		t.Errorf("got %q, want a name derived from the CA", derived)
	}
	if again := named("", v1alpha1.CloudConfiguration{}); again != derived {
		t.Errorf("derived %q and then %q from one CA", derived, again)
	}
}
