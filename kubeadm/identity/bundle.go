package identity

import (
	"errors"
	"path/filepath"
	"slices"

	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"

	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
)

// ExternalCA tells whether the machine has the CA's certificate without its key (kubeadm's external CA mode).
func ExternalCA(m *machine.Machine, certsDir string) (bool, error) {
	cert, err := m.Exists(filepath.Join(certsDir, "ca.crt"))
	if err != nil || !cert {
		return false, err
	}
	key, err := m.Exists(filepath.Join(certsDir, "ca.key"))
	return !key, err
}

// CertificatesDir is where this machine keeps the CA, by what an earlier run has written down.
func CertificatesDir(m *machine.Machine) (string, error) {
	rec, err := m.Record()
	if err != nil || rec == nil || rec.CertificatesDir == "" {
		return machine.PKIDir, err
	}
	return rec.CertificatesDir, nil
}

// SameCerts tells whether two bundles hold the same certificates, in whatever order.
func SameCerts(a, b []byte) bool {
	first, second := Pins(a), Pins(b)
	return len(first) > 0 && slices.Equal(first, second)
}

// WithCAs is a kubeconfig that trusts the bundle, and is otherwise as it was; nil: it does already.
func WithCAs(data, bundle []byte) ([]byte, error) {
	config, err := clientcmd.Load(data)
	if err != nil {
		return nil, err
	}
	current := config.Contexts[config.CurrentContext]
	if current == nil || config.Clusters[current.Cluster] == nil {
		return nil, errors.New("it has no current context")
	}
	cluster := config.Clusters[current.Cluster]
	if cluster.CertificateAuthority != "" || SameCerts(bundle, cluster.CertificateAuthorityData) {
		return nil, nil // a file is the administrator's
	}
	cluster.CertificateAuthorityData = bundle
	return clientcmd.Write(*config)
}

// SharesCA tells whether two bundles have a certificate in common: during a rotation a cluster has two.
func SharesCA(a, b []byte) bool {
	known := Pins(b)
	return slices.ContainsFunc(Pins(a), func(pin string) bool { return slices.Contains(known, pin) })
}

// Pins are the hashes of a bundle's public keys, sorted, each once.
func Pins(bundle []byte) []string {
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
