package hook

import (
	"bytes"
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

	"github.com/ccmadm/ccmadm/api/finding"
)

// Body is what an endpoint is sent. Fields are only added to it.
type Body struct {
	// Address is to be routed to the Node.
	Address string `json:"address"`
	// Node is the name of the one that owns the address, and ProviderID and InternalIPs are how a provider may know its machine.
	Node        string   `json:"node"`
	ProviderID  string   `json:"providerID"`
	InternalIPs []string `json:"internalIPs"`
	// Pool is the AddressPool, and Services are those that have the address, NAMESPACE/NAME; the first 50 by name, if there are more.
	Pool     string   `json:"pool"`
	Services []string `json:"services"`
	// Generation is greater with each owner: an endpoint refuses a call whose number is less than the greatest that it has seen for the
	// address, by status 409 and an object with that number.
	Generation int64 `json:"generation"`
}

const (
	// maxServices is how many of the Services that share an address are sent: receivers refuse bodies that are too long.
	maxServices = 50
	// maxBody and maxHeader are how much of an answer is read, in bytes.
	maxBody, maxHeader = 4 << 10, 16 << 10
	// maxMessage is how long a problem may be that is reported, in bytes.
	maxMessage = 200
	// maxGeneration is the greatest one that an endpoint may have seen: programs that read JSON into floating-point numbers hold no more.
	maxGeneration = 1<<53 - 1
)

// answer is what became of a call.
type answer struct {
	problem  string        // why it has failed; empty: it has not
	known    int64         // the greatest generation that the endpoint has seen, if it refuses ours for that; else 0
	after    time.Duration // when the endpoint wants to be asked again
	lost     bool          // there was none, since this Node does not own the address
	outdated bool          // it does not count, since the hook, its token or the Node have changed
	held     time.Duration // there was none, since the endpoint wants to be left alone for this time
}

// result is that of metrics.
func (a answer) result() string {
	switch {
	case a.known > 0:
		return "refused"
	case a.problem != "":
		return "failed"
	}
	return "ok"
}

// send makes one call. What an endpoint says is not repeated, beside its status: it may be the token.
func send(ctx context.Context, want order) answer {
	ctx, cancel := context.WithTimeout(ctx, want.hook.Timeout.Duration)
	defer cancel()
	client, request, err := prepare(ctx, want)
	if err != nil {
		return answer{problem: err.Error()}
	}
	response, err := client.Do(request)
	if err != nil {
		return answer{problem: clip(describe(ctx, err, want))}
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxBody)) // that it is cut short says nothing about the call
	switch code := response.StatusCode; {
	case code >= 200 && code <= 299:
		return answer{}
	case code >= 300 && code <= 399:
		return answer{problem: fmt.Sprintf("answers %d, and redirects are not followed", code)}
	default:
		a := answer{problem: strings.TrimSpace(fmt.Sprintf("answers %d %s", code, http.StatusText(code)))}
		if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 && seconds <= 24*60*60 {
			a.after = time.Duration(seconds) * time.Second
		}
		var known struct {
			Generation int64 `json:"generation"`
		}
		if code == http.StatusConflict && json.Unmarshal(body, &known) == nil && known.Generation > 0 && known.Generation < maxGeneration {
			a.known = known.Generation
		}
		return a
	}
}

// prepare makes a client that keeps no connection, so that none holds up another call, and the request.
func prepare(ctx context.Context, want order) (*http.Client, *http.Request, error) {
	u, err := url.Parse(want.hook.URL)
	if err != nil || !allowed(u) {
		return nil, nil, errors.New("its URL is not https, nor http with host 127.0.0.1 or [::1]")
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	if u.Scheme == "https" && !config.RootCAs.AppendCertsFromPEM([]byte(want.hook.CA)) {
		return nil, nil, errors.New("its ca holds no certificate")
	}
	body, err := json.Marshal(want.body)
	if err != nil {
		return nil, nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, want.hook.URL, bytes.NewReader(body))
	if err != nil {
		return nil, nil, errors.New("its URL cannot be used")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "ccmadm-node-agent")
	if want.token != "" {
		request.Header.Set("Authorization", "Bearer "+want.token)
	}
	client := &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: want.hook.Timeout.Duration}).DialContext,
			TLSClientConfig:        config,
			DisableKeepAlives:      true,
			DisableCompression:     true,
			MaxResponseHeaderBytes: maxHeader,
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
func describe(ctx context.Context, err error, want order) string {
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
		return fmt.Sprintf("has not answered within %s", want.hook.Timeout.Duration)
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
	if want.token != "" {
		text = strings.ReplaceAll(text, want.token, "...")
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

// clip keeps what a report, and a terminal, can have of a problem.
func clip(text string) string {
	text = finding.Clean(text)
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "..."
	}
	return text
}
