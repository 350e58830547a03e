package endpoint

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"
)

// What is reported of a call without an answer does not differ from attempt to attempt, and has no name or address of the endpoint.
func TestDescribe(t *testing.T) {
	certificate := &x509.Certificate{
		DNSNames: []string{"internal.example.com"}, Raw: []byte("x"), NotAfter: time.Now().Add(-time.Hour),
	}
	certificate.Subject.CommonName = "internal.example.com"
	lookup := func(attempt int, notFound bool) error {
		reason := "no such host"
		if !notFound {
			reason = fmt.Sprintf("read udp 10.0.0.7:%d->10.0.0.53:53: i/o timeout", 40000+attempt)
		}
		return &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{
			Err: reason, Name: "internal.example.com", Server: "10.0.0.53:53", IsNotFound: notFound, IsTimeout: !notFound,
		}}
	}
	verification := func(err error) error {
		return &tls.CertificateVerificationError{UnverifiedCertificates: []*x509.Certificate{certificate}, Err: err}
	}
	for _, tt := range []struct {
		name, want string
		err        func(attempt int) error
	}{
		{"no such name", "cannot be reached: its host name does not exist", func(n int) error { return lookup(n, true) }},
		{"no resolver", "cannot be reached: its host name cannot be resolved", func(n int) error { return lookup(n, false) }},
		{"another name", "has a certificate for another name", func(int) error {
			return verification(x509.HostnameError{Certificate: certificate, Host: "internal.example.com"})
		}},
		{"expired", "has a certificate that has expired or is not yet valid", func(n int) error {
			detail := fmt.Sprintf("current time 2026-11-28T13:20:%02dZ is after 2026-01-01T00:00:00Z", n)
			return verification(x509.CertificateInvalidError{Cert: certificate, Reason: x509.Expired, Detail: detail})
		}},
		{"a name its authority may not sign", "has a certificate that ca does not vouch for: x509: a root", func(int) error {
			return verification(x509.CertificateInvalidError{
				Cert: certificate, Reason: x509.CANotAuthorizedForThisName, Detail: `DNS name "internal.example.com" is excluded`,
			})
		}},
		{"another authority", "has a certificate that ca does not vouch for", func(int) error {
			return verification(x509.UnknownAuthorityError{Cert: certificate})
		}},
		{"refused", "cannot be reached: connection refused", func(int) error {
			to := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 443}
			return &net.OpError{Op: "dial", Net: "tcp", Addr: to, Err: errors.New("connection refused")}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			texts := map[string]bool{}
			for attempt := range 3 {
				err := &url.Error{Op: "Put", URL: "https://internal.example.com/route", Err: tt.err(attempt)}
				text := Endpoint{}.describe(t.Context(), err)
				texts[text] = true
				if !strings.HasPrefix(text, tt.want) || strings.Contains(text, "internal") || strings.Contains(text, "10.0.0.") {
					t.Errorf("got %q, want %q", text, tt.want)
				}
			}
			if len(texts) != 1 {
				t.Errorf("it differs from attempt to attempt: %v", texts)
			}
		})
	}
}
