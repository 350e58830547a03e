package phases

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/pkiutil"
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
Writes ` + CCMKubeconfig + ` for the user ` + staticPodManager + `, who is in no group and has
only the permissions that the rbac phase gives.`,
		Only: []v1alpha1.Mode{v1alpha1.ModeStaticPod},
		Run:  runKubeconfig,
	}
}

func joinKubeconfig() Phase {
	p := kubeconfig()
	run := p.Run
	p.Run = func(ctx context.Context, d *Data) error {
		if !d.isControlPlane() {
			return nil
		}
		return run(ctx, d)
	}
	return p
}

func runKubeconfig(_ context.Context, d *Data) error {
	ca := filepath.Join(d.certsDir(), "ca.crt")
	if _, err := os.Stat(ca); errors.Is(err, fs.ErrNotExist) {
		if d.DryRun {
			d.Sayf("would sign %s with the CA that kubeadm makes", CCMKubeconfig)
			return nil
		}
		return finding.Errorf("sign a certificate for %s: %w", staticPodManager, err).
			WithHint("kubeadm makes the CA: kubeadm init phase certs ca --config %s", KubeadmConfig)
	}
	server := "https://" + d.localEndpoint()
	if kubeconfigValid(CCMKubeconfig, ca, server) {
		d.Sayf("%s unchanged", CCMKubeconfig)
		return nil
	}
	data, err := signKubeconfig(d.certsDir(), server)
	if err != nil {
		return err
	}
	return d.write(File{Path: CCMKubeconfig, Data: data, Mode: 0o600, Opaque: true})
}

// localEndpoint is this machine's API server, as in the kubeconfigs that kubeadm gives to the scheduler and the
// controller manager: a control plane must not need a load balancer that may wait for it.
func (d *Data) localEndpoint() string {
	host, port := d.Kubeadm.AdvertiseAddress(d.Role), d.Kubeadm.BindPort(d.Role)
	if addr, err := advertiseAddress(host); err == nil {
		host = addr.String()
	}
	if port == 0 {
		port = defaultBindPort
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

func (d *Data) certsDir() string {
	if dir := d.Kubeadm.CertificatesDir(); dir != "" {
		return dir
	}
	return defaultCertsDir
}

// clusterName is what the settings say, or kubeadm's own if the user chose one, or a name derived from the CA's
// public key: known before the API server is, the same on every control plane, and not shared by all clusters as
// kubeadm's default is, which lets clusters take over each other's load balancers.
func (d *Data) clusterName(settings *v1alpha1.CloudConfiguration) (string, error) {
	if settings.ClusterName != "" {
		return settings.ClusterName, nil
	}
	if name := d.Kubeadm.ClusterName(); name != "" && name != "kubernetes" {
		return name, nil
	}
	certs, err := certutil.CertsFromFile(filepath.Join(d.certsDir(), "ca.crt"))
	if errors.Is(err, fs.ErrNotExist) && d.DryRun {
		return "cluster-of-the-coming-ca", nil
	}
	if err != nil {
		return "", fmt.Errorf("derive the cluster's name from its CA: %w", err)
	}
	sum := sha256.Sum256(certs[0].RawSubjectPublicKeyInfo)
	return "cluster-" + hex.EncodeToString(sum[:5]), nil
}

// kubeconfigValid tells whether the file has a certificate of this CA that lasts, for this server.
func kubeconfigValid(path, caFile, server string) bool {
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return false
	}
	context := config.Contexts[config.CurrentContext]
	if context == nil || config.Clusters[context.Cluster] == nil || config.AuthInfos[context.AuthInfo] == nil {
		return false
	}
	certs, err := certutil.ParseCertsPEM(config.AuthInfos[context.AuthInfo].ClientCertificateData)
	if err != nil {
		return false
	}
	roots, err := certutil.NewPool(caFile)
	if err != nil {
		return false
	}
	_, err = certs[0].Verify(x509.VerifyOptions{
		Roots: roots, CurrentTime: time.Now().Add(renewBefore), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err == nil && config.Clusters[context.Cluster].Server == server
}

func signKubeconfig(certsDir, server string) ([]byte, error) {
	caCert, caKey, err := pkiutil.TryLoadCertAndKeyFromDisk(certsDir, "ca")
	if err != nil {
		return nil, finding.Errorf("sign a certificate for %s: %w", staticPodManager, err).
			WithHint("with an external CA, put a kubeconfig for the user %s at %s, or choose --mode DaemonSet", staticPodManager, CCMKubeconfig)
	}
	cert, key, err := pkiutil.NewCertAndKey(caCert, caKey, &pkiutil.CertConfig{
		Config:   certutil.Config{CommonName: staticPodManager, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
		NotAfter: time.Now().Add(certificateValidity),
		// Whatever the CA's own algorithm: any API server accepts it, and an RSA key takes a tenth of a second.
		EncryptionAlgorithm: kubeadmapi.EncryptionAlgorithmECDSAP256,
	})
	if err != nil {
		return nil, fmt.Errorf("sign a certificate for %s: %w", staticPodManager, err)
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, fmt.Errorf("encode the key of %s: %w", staticPodManager, err)
	}
	const cluster, name = "kubernetes", staticPodManager + "@kubernetes"
	config := clientcmdapi.NewConfig()
	config.Clusters[cluster] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: pkiutil.EncodeCertPEM(caCert)}
	config.AuthInfos[staticPodManager] = &clientcmdapi.AuthInfo{ClientCertificateData: pkiutil.EncodeCertPEM(cert), ClientKeyData: keyPEM}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: staticPodManager}
	config.CurrentContext = name
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encode kubeconfig: %w", err)
	}
	return data, nil
}
