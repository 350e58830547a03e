package contexts

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/ccmadm/ccmadm/api/finding"
)

// Reason is why a cluster cannot be asked, in a word.
type Reason string

// The reasons.
const (
	// NoContext: the kubeconfig has no context of this name.
	NoContext Reason = "NoContext"
	// Kubeconfig: the context is there, and does not lead to a cluster: an entry or a file is missing.
	Kubeconfig Reason = "Kubeconfig"
	// Refused: no program listens on the port.
	Refused Reason = "Refused"
	// Unreachable: there is no route to the machine.
	Unreachable Reason = "Unreachable"
	// UnknownHost: the name of the server has no address.
	UnknownHost Reason = "UnknownHost"
	// Timeout: there is no answer in time.
	Timeout Reason = "Timeout"
	// TLS: the certificate of the server is not trusted, has ended, or the server does not speak TLS.
	TLS Reason = "TLS"
	// Credentials: the API server does not accept them, or the program that makes them fails.
	Credentials Reason = "Credentials"
	// Forbidden: the user may not list Nodes.
	Forbidden Reason = "Forbidden"
	// Unavailable: the API server answers that it cannot work, or is overloaded.
	Unavailable Reason = "Unavailable"
	// NotKubernetes: the server is no API server.
	NotKubernetes Reason = "NotKubernetes"
	// Interrupted: the command was ended before there was an answer.
	Interrupted Reason = "Interrupted"
	// Failed is everything else.
	Failed Reason = "Failed"
)

// classify finds the reason of an error, and its text in one line without the request.
func classify(err error) (Reason, string) {
	text := err.Error()
	var request *url.Error
	if errors.As(err, &request) {
		text = request.Err.Error()
	}
	line, _, _ := strings.Cut(text, "\n")
	return reasonOf(err), finding.Clean(line)
}

func reasonOf(err error) Reason {
	var host *net.DNSError
	var request *url.Error
	var known *finding.Error
	switch {
	case errors.Is(err, ErrNoContext):
		return NoContext
	case errors.Is(err, context.Canceled):
		return Interrupted
	case isTLS(err):
		return TLS
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return Unreachable
	case errors.As(err, &host) && !host.IsTimeout:
		return UnknownHost
	case apierrors.IsUnauthorized(err), strings.Contains(err.Error(), "getting credentials: "): // client-go has no type for it
		return Credentials
	case errors.Is(err, context.DeadlineExceeded), apierrors.IsTimeout(err), errors.As(err, &request) && request.Timeout(),
		strings.Contains(err.Error(), "would exceed context deadline"): // of client-go's own rate limiter
		return Timeout
	case apierrors.IsForbidden(err):
		return Forbidden
	case apierrors.IsServiceUnavailable(err), apierrors.IsInternalError(err), apierrors.IsTooManyRequests(err), apierrors.IsServerTimeout(err):
		return Unavailable
	case errors.Is(err, errNotKubernetes), apierrors.IsNotFound(err):
		return NotKubernetes
	case errors.As(err, &known) && known.Code == finding.ExitUsage:
		return Kubeconfig
	}
	return Failed
}

// isTLS tells whether it is the certificate, or TLS itself, that keeps a client from the server.
func isTLS(err error) bool {
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	return errors.As(err, &verification) || errors.As(err, &record) || errors.As(err, &alert) || errors.As(err, &authority) ||
		errors.As(err, &invalid) || errors.As(err, &name) || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")
}
