package observer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/cmd/ccmadm/usage"
)

// What to do about an API server that does not answer, and about one that answers that it does not know who asks.
const (
	hintUnreached = "--kubeconfig names the cluster; on a control plane: crictl ps | grep apiserver"
	hintUnknown   = "the certificate or token of the kubeconfig has expired, or is another cluster's"
	// The server answers, with a certificate that the kubeconfig's CA has not signed or that has expired.
	hintCertificate = "the CA of the kubeconfig is another cluster's; or on a control plane: kubeadm certs check-expiration"
)

// Asked is [usage.Observed] for what only the API server was asked for. Where nothing answers, that is one line, however much was
// asked; who is not let in is told so once, too.
func Asked(err error) error { return askedOf(err, hintUnreached) }

// AskedHere is Asked for commands that know the cluster of this control plane alone.
func AskedHere(err error) error { return askedOf(err, "crictl ps | grep apiserver") }

func askedOf(err error, hint string) error {
	var known *finding.Error
	var request *url.Error
	switch {
	case errors.As(err, &known), errors.Is(err, context.Canceled):
	case apierrors.IsUnauthorized(err):
		return finding.Errorf("authenticate to the API server: Unauthorized").WithHint(hintUnknown)
	case errors.As(err, &request):
		return finding.Errorf("reach the API server %s: %w", serverAsked(request), request.Err).
			WithHint("%s", hintFor(request, hint))
	}
	return usage.Observed(err)
}

// hintFor is the hint for an API server that does not answer, unless it is the kubeconfig that is at fault.
func hintFor(request *url.Error, unreached string) string {
	var network *net.OpError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(request.Err, &certificate):
		return hintCertificate
	case errors.As(request.Err, &network), request.Timeout():
		return unreached
	}
	return "--kubeconfig names another one"
}

// HintBlind is what to do about a cluster of which nothing was seen.
func HintBlind(err error) string {
	if apierrors.IsUnauthorized(err) {
		return hintUnknown
	}
	return hintUnreached
}

// serverAsked is the server of a request.
func serverAsked(request *url.Error) string {
	u, err := url.Parse(request.URL)
	if err != nil {
		return request.URL
	}
	return fmt.Sprintf("%s://%s", u.Scheme, u.Host)
}
