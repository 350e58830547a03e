// Package endpoint calls the HTTP endpoints that AddressPools name.
//
// Start at [Endpoint.Call]. [Token] finds the token of an endpoint among those of a Secret.
//
// Reads and writes: nothing but one request and its answer.
// Running it twice: two requests.
// It will not: follow a redirect, read more than 4 KiB of an answer, trust an authority that the endpoint's CA does not have, or name the
// endpoint in a problem, which tenants read.
package endpoint

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/ccmadm/ccmadm/api/finding"
)

const (
	// MaxHeader is how much is read of the header of an answer, and maxBody of the rest, in bytes.
	MaxHeader = 16 << 10
	maxBody   = 4 << 10
	// maxMessage is how long a problem may be that is reported, in bytes.
	maxMessage = 200
	// maxAfter is the longest time that an endpoint may want to be left alone.
	maxAfter = 24 * time.Hour
)

// Endpoint is what is called.
type Endpoint struct {
	URL, CA, Token string
	// Timeout is that of one call.
	Timeout   time.Duration
	UserAgent string
}

// Answer is what became of a call.
type Answer struct {
	// Status is that of HTTP; 0: there was no answer.
	Status int
	// Body is what was sent with it, which may be cut short.
	Body []byte
	// Problem is why the call has failed; empty: the status is 2xx. What an endpoint says is not in it, beside its status: it may be the
	// token.
	Problem string
	// After is when the endpoint wants to be called again; 0: it does not say.
	After time.Duration
}

// Call makes one call with a JSON object.
func (e Endpoint) Call(ctx context.Context, method string, body any) Answer {
	ctx, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	client, request, err := e.prepare(ctx, method, body)
	if err != nil {
		return Answer{Problem: err.Error()}
	}
	response, err := client.Do(request)
	if err != nil {
		return Answer{Problem: Clip(e.describe(ctx, err))}
	}
	defer func() { _ = response.Body.Close() }()
	a := Answer{Status: response.StatusCode}
	a.Body, _ = io.ReadAll(io.LimitReader(response.Body, maxBody)) // that it is cut short says nothing about the call
	switch code := a.Status; {
	case code >= 200 && code <= 299:
	case code >= 300 && code <= 399:
		a.Problem = fmt.Sprintf("answers %d, and redirects are not followed", code)
	default:
		a.Problem = strings.TrimSpace(fmt.Sprintf("answers %d %s", code, http.StatusText(code)))
		seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
		if err == nil && seconds > 0 && seconds <= int(maxAfter/time.Second) {
			a.After = time.Duration(seconds) * time.Second
		}
	}
	return a
}

// Token returns the token of a key, or why there is none. Tokens are those of the Secret; nil: it was not read yet. Without a key no token
// is sent.
func Token(secret string, tokens map[string][]byte, key string) (token, problem string) {
	if key == "" {
		return "", ""
	}
	token = strings.TrimSpace(string(tokens[key]))
	switch {
	case tokens == nil:
		return "", "Secret " + secret + " was not read yet"
	case token == "":
		return "", "Secret " + secret + ` has no key "` + key + `"`
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", "Secret " + secret + `: key "` + key + `" is no bearer token`
	}
	return token, ""
}

// prepare makes a client that keeps no connection, so that none holds up another call, and the request.
func (e Endpoint) prepare(ctx context.Context, method string, sent any) (*http.Client, *http.Request, error) {
	u, err := url.Parse(e.URL)
	if err != nil || !allowed(u) {
		return nil, nil, errors.New("its URL is not https, nor http with host 127.0.0.1 or [::1]")
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	if u.Scheme == "https" && !config.RootCAs.AppendCertsFromPEM([]byte(e.CA)) {
		return nil, nil, errors.New("its ca holds no certificate")
	}
	body, err := json.Marshal(sent)
	if err != nil {
		return nil, nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, e.URL, bytes.NewReader(body))
	if err != nil {
		return nil, nil, errors.New("its URL cannot be used")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", e.UserAgent)
	if e.Token != "" {
		request.Header.Set("Authorization", "Bearer "+e.Token)
	}
	client := &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: e.Timeout}).DialContext,
			TLSClientConfig:        config,
			DisableKeepAlives:      true,
			DisableCompression:     true,
			MaxResponseHeaderBytes: MaxHeader,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return client, request, nil
}

// allowed is the rule of the definition once more: the object may be older than that.
func allowed(u *url.URL) bool {
	if u.User != nil || u.RawQuery != "" || u.Hostname() == "" {
		return false
	}
	address, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && err == nil && address.IsLoopback()
}

// describe says why there was no answer, in words that are the same at each attempt, since each new text is a write to the API server.
// Tenants read it: names and addresses of the endpoint and of resolvers are left out, and what the endpoint may have repeated.
func (e Endpoint) describe(ctx context.Context, err error) string {
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	var operation *net.OpError
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	text := "gives no valid HTTP answer"
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Sprintf("has not answered within %s", e.Timeout)
	case errors.As(err, &verification):
		text = distrusted(verification.Err)
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		text = "speaks no TLS"
	case errors.As(err, &alert):
		text = "refuses TLS: " + alert.Error()
	case errors.As(err, &operation) && operation.Op == "dial":
		text = "cannot be reached: " + unreached(operation.Err)
	case errors.As(err, &operation), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		text = "has ended the connection without an answer"
	}
	if e.Token != "" {
		text = strings.ReplaceAll(text, e.Token, "...")
	}
	return text
}

// distrusted says what is wrong with a certificate. The errors have names of it, and of one that has expired the time of the attempt.
func distrusted(err error) string {
	var name x509.HostnameError
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &name):
		return "has a certificate for another name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "has a certificate that has expired or is not yet valid"
	case errors.As(err, &invalid) && invalid.Detail != "":
		invalid.Detail = ""
		err = invalid
	case errors.As(err, &authority):
		return "has a certificate that ca does not vouch for"
	}
	return "has a certificate that ca does not vouch for: " + strings.TrimRight(err.Error(), ": ")
}

// unreached says why there is no connection. The error of a resolver has the name, the resolver's address and our port.
func unreached(err error) string {
	var lookup *net.DNSError
	switch {
	case !errors.As(err, &lookup):
		return err.Error()
	case lookup.IsNotFound:
		return "its host name does not exist"
	}
	return "its host name cannot be resolved"
}

// Bounded is a duration that an AddressPool says, within what its definition allows; 0 stands for another one.
func Bounded(d, otherwise, least, most time.Duration) time.Duration {
	return max(least, min(most, cmp.Or(d, otherwise)))
}

// Jitter makes a pause up to a tenth shorter or longer, so that not all call at once.
func Jitter(d time.Duration) time.Duration { return wait.Jitter(d*9/10, 2.0/9) }

// Clip keeps what a report, and a terminal, can have of a problem.
func Clip(text string) string {
	text = finding.Clean(text)
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "..."
	}
	return text
}
