package phases

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/pkiutil"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/kubeadm"
	"github.com/ccmadm/ccmadm/phases/machine"
)

const (
	certificateValidity = 365 * 24 * time.Hour // kubeadm's default for client certificates
	renewBefore         = 30 * 24 * time.Hour
)

func kubeconfig() Phase {
	return Phase{
		Name:  "kubeconfig",
		Short: "Sign a client certificate for the cloud-controller-manager",
		Long: `Reads the cluster's CA.
Writes ` + machine.CCMKubeconfig + ` for the user ` + v1alpha1.StaticPodUser + `, who is in no group and has
only the permissions that the rbac phase gives; and, where systemd runs and the CA's key is here, ` + machine.CertsTimer + `,
which renews the certificate within its last 30 days.`,
		Only: []v1alpha1.Mode{v1alpha1.ModeStaticPod},
		Run:  runKubeconfig,
	}
}

func joinKubeconfig() Phase {
	p := kubeconfig()
	p.Run = func(ctx context.Context, d *Data) error {
		if !isControlPlane(d) {
			return nil
		}
		return runKubeconfig(ctx, d)
	}
	return p
}

func runKubeconfig(ctx context.Context, d *Data) error {
	s, err := d.Settings(ctx)
	if err != nil {
		return err
	}
	if err := writeKubeconfig(d, s); err != nil {
		return err
	}
	return installCertsTimer(ctx, d, s.CertificatesDir)
}

func writeKubeconfig(d *Data, s *Settings) error {
	certsDir, server := d.Machine.Path(s.CertificatesDir), localServer(d)
	ca := filepath.Join(certsDir, "ca.crt")
	if _, err := os.Stat(ca); errors.Is(err, fs.ErrNotExist) {
		if d.DryRun {
			d.Sayf("would sign %s with the CA that kubeadm makes", machine.CCMKubeconfig)
			return nil
		}
		return finding.Errorf("sign a certificate for %s: %w", v1alpha1.StaticPodUser, err).
			WithHint("kubeadm makes the CA: kubeadm init phase certs ca --config %s", machine.KubeadmConfig)
	}
	wanted := server
	if external, err := externalCA(d.Machine, s.CertificatesDir); err != nil {
		return err
	} else if external {
		wanted = "" // the administrator's own
	}
	if kubeconfigLasts(d.Machine.Path(machine.CCMKubeconfig), ca, wanted, d.Machine.Now()) {
		d.Sayf("%s unchanged", machine.CCMKubeconfig)
		return restampStaticPod(d) // a run that was cut short may have come no further than the file
	}
	return newIdentity(d, certsDir, server)
}

// newIdentity signs one, and starts the pod again that has the former.
func newIdentity(d *Data, certsDir, server string) error {
	data, err := signKubeconfig(certsDir, server, d.Machine.Now())
	if err != nil {
		return err
	}
	if err := d.write(machine.File{Path: machine.CCMKubeconfig, Data: data, Mode: 0o600, Opaque: true}); err != nil {
		return err
	}
	return restampStaticPod(d)
}

// externalCA tells whether the machine has the CA's certificate without its key (kubeadm's external CA mode).
func externalCA(m *machine.Machine, certsDir string) (bool, error) {
	cert, err := m.Exists(filepath.Join(certsDir, "ca.crt"))
	if err != nil || !cert {
		return false, err
	}
	key, err := m.Exists(filepath.Join(certsDir, "ca.key"))
	return !key, err
}

// checkExternalCA finds out before there is half a cluster that nobody can sign the identity of the static pod.
func checkExternalCA(ctx context.Context, d *Data) error {
	s, err := d.Settings(ctx)
	if err != nil || s.Mode != v1alpha1.ModeStaticPod {
		return err
	}
	external, err := externalCA(d.Machine, s.CertificatesDir)
	if err != nil || !external {
		return err
	}
	path := d.Machine.Path(machine.CCMKubeconfig)
	if kubeconfigLasts(path, d.Machine.Path(filepath.Join(s.CertificatesDir, "ca.crt")), "", d.Machine.Now()) {
		return nil
	}
	return finding.Usagef("%s has no ca.key, so that no identity can be signed for %s, and %s holds none that lasts", s.CertificatesDir, v1alpha1.StaticPodUser, machine.CCMKubeconfig).
		WithHint("with an external CA, put a kubeconfig for the user %s at %s, or choose --mode DaemonSet", v1alpha1.StaticPodUser, machine.CCMKubeconfig)
}

// localServer is this machine's API server, as in the kubeconfigs that kubeadm gives to the scheduler and the
// controller manager: a control plane must not need a load balancer that may wait for it.
func localServer(d *Data) string {
	// What kubeadm gave them is right whatever this run was told: it may be a second one, without the first one's flags.
	if server, err := controlPlaneURL(d.Machine.Path(machine.ControllerManagerConf)); err == nil {
		return server
	}
	host, port := d.KubeadmFile.AdvertiseAddress(d.Role), d.KubeadmFile.BindPort(d.Role)
	if addr, err := d.Machine.AdvertiseAddress(host); err == nil {
		host = addr.String()
	}
	if port == 0 {
		port = kubeadm.DefaultBindPort
	}
	return "https://" + net.JoinHostPort(host, strconv.Itoa(port))
}

// sameCerts tells whether two bundles hold the same certificates, in whatever order.
func sameCerts(a, b []byte) bool {
	first, second := pins(a), pins(b)
	return len(first) > 0 && slices.Equal(first, second)
}

// sharesCA tells whether two bundles have a certificate in common: during a rotation a cluster has two.
func sharesCA(a, b []byte) bool {
	known := pins(b)
	return slices.ContainsFunc(pins(a), func(pin string) bool { return slices.Contains(known, pin) })
}

func pins(bundle []byte) []string {
	certs, err := certutil.ParseCertsPEM(bundle)
	if err != nil {
		return nil
	}
	var list []string
	for _, cert := range certs {
		list = append(list, kubeadm.PinOf(cert))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// certificateOf is the certificate of the CA's key: in a bundle that is not always the first.
func certificateOf(key crypto.Signer, bundle []byte) (*x509.Certificate, error) {
	certs, err := certutil.ParseCertsPEM(bundle)
	if err != nil {
		return nil, err
	}
	for _, cert := range certs {
		if public, ok := cert.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); ok && public.Equal(key.Public()) {
			return cert, nil
		}
	}
	return nil, errors.New("ca.key is the key of no certificate in ca.crt")
}

// signKubeconfig makes an identity of its own, which trusts all of the CA bundle.
func signKubeconfig(certsDir, server string, now time.Time) ([]byte, error) {
	caKey, err := pkiutil.TryLoadKeyFromDisk(certsDir, "ca")
	if err != nil {
		return nil, finding.Errorf("sign a certificate for %s: %w", v1alpha1.StaticPodUser, err).
			WithHint("with an external CA, put a kubeconfig for the user %s at %s, or choose --mode DaemonSet", v1alpha1.StaticPodUser, machine.CCMKubeconfig)
	}
	bundle, err := os.ReadFile(filepath.Join(certsDir, "ca.crt")) // more than one certificate while a CA is rotated
	if err != nil {
		return nil, fmt.Errorf("read the cluster's CA: %w", err)
	}
	caCert, err := certificateOf(caKey, bundle)
	if err != nil {
		return nil, finding.Errorf("sign a certificate for %s: %w", v1alpha1.StaticPodUser, err).
			WithHint("ca.crt needs the certificate of ca.key, and while a CA is rotated that of the former one, too")
	}
	cert, key, err := pkiutil.NewCertAndKey(caCert, caKey, &pkiutil.CertConfig{
		Config:   certutil.Config{CommonName: v1alpha1.StaticPodUser, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
		NotAfter: now.Add(certificateValidity),
		// Whatever the CA's own algorithm: any API server accepts it, and an RSA key takes a tenth of a second.
		EncryptionAlgorithm: kubeadmapi.EncryptionAlgorithmECDSAP256,
	})
	if err != nil {
		return nil, fmt.Errorf("sign a certificate for %s: %w", v1alpha1.StaticPodUser, err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, fmt.Errorf("encode the key of %s: %w", v1alpha1.StaticPodUser, err)
	}
	const cluster, name = "kubernetes", v1alpha1.StaticPodUser + "@kubernetes"
	config := clientcmdapi.NewConfig()
	config.Clusters[cluster] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: bundle}
	config.AuthInfos[v1alpha1.StaticPodUser] = &clientcmdapi.AuthInfo{ClientCertificateData: pkiutil.EncodeCertPEM(cert), ClientKeyData: keyPEM}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: v1alpha1.StaticPodUser}
	config.CurrentContext = name
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encode kubeconfig: %w", err)
	}
	return data, nil
}
