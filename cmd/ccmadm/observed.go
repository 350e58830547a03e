package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/ccmadm/ccmadm/api/finding"
)

// What to do about an API server that does not answer, and about one that answers that it does not know who asks.
const (
	hintUnreached = "--kubeconfig names the cluster; on a control plane: crictl ps | grep apiserver"
	hintUnknown   = "the certificate or token of the kubeconfig has expired, or is another cluster's"
	// The server answers, with a certificate that the kubeconfig's CA has not signed or that has expired.
	hintCertificate = "the CA of the kubeconfig is another cluster's; or on a control plane: kubeadm certs check-expiration"
)

// observed gives an error its exit code: what could not be asked is no misuse of the command.
func observed(err error) error {
	var known *finding.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	return &finding.Error{Code: finding.ExitError, Err: err}
}

// asked is observed for what only the API server was asked for. Where nothing answers, that is one line, however much was
// asked; who is not let in is told so once, too.
func asked(err error) error { return askedOf(err, hintUnreached) }

// askedHere is asked for commands that know the cluster of this control plane alone.
func askedHere(err error) error { return askedOf(err, "crictl ps | grep apiserver") }

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
	return observed(err)
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

// hintBlind is what to do about a cluster of which nothing was seen.
func hintBlind(err error) string {
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

// errFound ends a command that has shown a difference or a problem: exit status [finding.ExitFound], and no message.
var errFound = errors.New("something was found")

// ending is when a command ends with an exit status of the table.
type ending struct {
	code finding.ExitCode
	when string
}

// exitStatuses is the end of a command's help. Numbers and names are those of [finding.ExitStatuses].
func exitStatuses(endings ...ending) string {
	var b strings.Builder
	b.WriteString("\n\nExit status:\n")
	slices.SortFunc(endings, func(a, b ending) int { return int(a.code - b.code) })
	for _, e := range endings {
		fmt.Fprintf(&b, "\n* %d (%s): %s", e.code, e.code.Name(), e.when)
	}
	return b.String()
}
