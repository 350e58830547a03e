package identity

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/pkiutil"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine"
)

// validity is kubeadm's default for client certificates.
const validity = 365 * 24 * time.Hour

// Sign makes an identity of its own, which trusts all of the CA bundle.
func Sign(certsDir, server string, now time.Time) ([]byte, error) {
	caKey, err := pkiutil.TryLoadKeyFromDisk(certsDir, "ca")
	if err != nil {
		return nil, finding.Errorf("sign a certificate for %s: %w", v1alpha1.StaticPodUser, err).
			WithHint("with an external CA, put a kubeconfig for the user %s at %s, or choose --mode DaemonSet",
				v1alpha1.StaticPodUser, machine.CCMKubeconfig)
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
		NotAfter: now.Add(validity),
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
	config.AuthInfos[v1alpha1.StaticPodUser] = &clientcmdapi.AuthInfo{
		ClientCertificateData: pkiutil.EncodeCertPEM(cert), ClientKeyData: keyPEM,
	}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: v1alpha1.StaticPodUser}
	config.CurrentContext = name
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encode kubeconfig: %w", err)
	}
	return data, nil
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

// signerOf is the certificate in the bundle with which a new identity would be signed; nil where none can be.
func signerOf(caFile string, bundle []byte) *x509.Certificate {
	key, err := pkiutil.TryLoadKeyFromDisk(filepath.Dir(caFile), "ca")
	if err != nil {
		return nil
	}
	signer, err := certificateOf(key, bundle)
	if err != nil {
		return nil
	}
	return signer
}
