package contexts

import (
	"crypto/tls"
	"crypto/x509"
	"os"

	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
)

// firstToEnd returns the certificate that ends first among those of the connection: the API server's and those above it, the CAs
// of the kubeconfig, and its client certificate. Nil where there are none.
func firstToEnd(config *rest.Config, state *tls.ConnectionState) *Certificate {
	var first *Certificate
	if state != nil {
		first = earliest(first, "API server", state.PeerCertificates)
	}
	first = earliest(first, "CA of the kubeconfig", parsed(config.CAData, config.CAFile))
	return earliest(first, "client of the kubeconfig", parsed(config.CertData, config.CertFile))
}

// earliest is the first to end of a certificate and a list.
func earliest(first *Certificate, name string, list []*x509.Certificate) *Certificate {
	for _, c := range list {
		if first == nil || c.NotAfter.Before(first.Ends) {
			first = &Certificate{Name: name, Ends: c.NotAfter.UTC()}
		}
	}
	return first
}

// parsed are the certificates of a kubeconfig. The connection has used them: what it could not read is among its errors.
func parsed(data []byte, file string) []*x509.Certificate {
	if len(data) == 0 && file != "" {
		read, err := os.ReadFile(file)
		if err != nil {
			return nil
		}
		data = read
	}
	list, err := certutil.ParseCertsPEM(data)
	if err != nil {
		return nil
	}
	return list
}
