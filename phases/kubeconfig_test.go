package phases

import (
	"crypto/x509"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/pkiutil"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/kubeadm"
	"github.com/ccmadm/ccmadm/phases/machine"
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

// tokenKubeconfig is one that an administrator made.
func tokenKubeconfig(ca []byte) string {
	return "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n" +
		"users: [{name: u, user: {token: abc}}]\nclusters:\n- name: c\n  cluster: {server: 'https://lb.example:6443', certificate-authority-data: " +
		base64.StdEncoding.EncodeToString(ca) + "}\n"
}

func TestKubeconfig(t *testing.T) {
	m, _ := newMachine(t)
	_, err := run{config: initConfig}.do(t, m, kubeconfig())
	wantError(t, err, "sign a certificate for system:cloud-controller-manager", finding.ExitError)

	copyCA(t, newCA(t), m.Path(machine.PKIDir))
	for i, want := range []string{"cloud-controller-manager.conf written", "cloud-controller-manager.conf unchanged"} {
		if out, err := (run{config: initConfig}).do(t, m, kubeconfig()); err != nil || !strings.Contains(out, want) {
			t.Errorf("run %d: %v\n%s, want %q", i+1, err, out, want)
		}
	}
	m.Now = func() time.Time { return now.AddDate(1, 0, -20) } // 20 days before its end
	put(t, m, machine.CCMManifest, string(seal([]byte("metadata: {annotations: {a: b}}\n"))))
	if out, err := (run{config: initConfig}).do(t, m, kubeconfig()); err != nil || strings.Count(out, "written") != 2 {
		t.Errorf("near its end: %v\n%s, want a new one, and the pod started again", err, out)
	}
	if manifest := content(m, machine.CCMManifest); !sealed([]byte(manifest)) || !strings.Contains(manifest, "ccmadm.dev/kubeconfig-hash: ") {
		t.Errorf("the running pod would keep the old identity:\n%s", manifest)
	}
}

func TestKubeconfig_FollowsTheCABundle(t *testing.T) {
	m, _ := newMachine(t)
	copyCA(t, newCA(t), m.Path(machine.PKIDir))
	r := run{config: initConfig}
	if _, err := r.do(t, m, kubeconfig()); err != nil {
		t.Fatal(err)
	}
	next, err := os.ReadFile(filepath.Join(newCA(t), "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, m, machine.PKIDir+"/ca.crt", content(m, machine.PKIDir+"/ca.crt")+string(next))
	if out, err := r.do(t, m, kubeconfig()); err != nil || !strings.Contains(out, "written") {
		t.Fatalf("a CA was added to the bundle: %v\n%s", err, out)
	}
	config, err := clientcmd.LoadFromFile(m.Path(machine.CCMKubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	if got := pins(config.Clusters["kubernetes"].CertificateAuthorityData); len(got) != 2 {
		t.Errorf("the kubeconfig trusts %d certificates, want both", len(got))
	}
}

func readCA(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Near the end of its CA no identity can be better than the one that is there: nothing is written each day.
func TestSignKubeconfig_CANearItsEnd(t *testing.T) {
	const server = "https://198.18.0.2:6443"
	dir := newCA(t)
	cas, err := certutil.CertsFromFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	now := cas[0].NotAfter.Add(-10 * 24 * time.Hour)
	data, err := signKubeconfig(dir, server, now)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "ccm.conf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if !kubeconfigLasts(path, filepath.Join(dir, "ca.crt"), server, now) {
		t.Error("an identity that was just signed is to be signed again")
	}
}
