package inventory

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"
)

// HTTPS is a document on a server.
type HTTPS struct {
	url, caFile       string
	timeout, interval time.Duration

	client *http.Client
	ca     []byte // that the client trusts

	etag     string
	document []byte // that the ETag is of
}

// NewHTTPS prepares a source. Without a CA file the system's authorities count.
func NewHTTPS(url, caFile string, timeout, interval time.Duration) *HTTPS {
	return &HTTPS{url: url, caFile: caFile, timeout: timeout, interval: interval}
}

// connect makes a client, once, and again when the CA file has changed. A file that cannot be read now may be there at
// the next reading.
func (h *HTTPS) connect() error {
	var authorities *x509.CertPool // nil: the system's
	var ca []byte
	if h.caFile != "" {
		var err error
		if ca, err = os.ReadFile(h.caFile); err != nil {
			return fmt.Errorf("read CA: %w", err)
		}
		authorities = x509.NewCertPool()
		if !authorities.AppendCertsFromPEM(ca) {
			return fmt.Errorf("read CA: %s holds no certificate", h.caFile)
		}
	}
	if h.client != nil && bytes.Equal(ca, h.ca) {
		return nil
	}
	h.close()
	h.ca = ca
	h.client = &http.Client{
		Timeout: h.timeout,
		Transport: &http.Transport{
			Proxy:             http.ProxyFromEnvironment,
			TLSClientConfig:   &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2: true,
		},
		CheckRedirect: secureRedirect,
	}
	return nil
}

func (h *HTTPS) close() {
	if h.client != nil {
		h.client.CloseIdleConnections()
	}
}

// secureRedirect keeps a server from sending us to one that nobody vouches for.
func secureRedirect(next *http.Request, before []*http.Request) error {
	if next.URL.Scheme != "https" {
		return fmt.Errorf("redirect to %s: want https", place(next.URL))
	}
	if len(before) >= 5 {
		return errors.New("too many redirects")
	}
	return nil
}

// place is a URL without what may be a secret: user, password, query and fragment. It is shown in logs and Events.
func place(u *url.URL) string { return u.Scheme + "://" + u.Host + u.Path }

// withoutURL is the cause of an error of package http, which names the whole URL.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// Run asks the server at every interval. As long as it says that nothing has
// changed, the document is not sent again.
func (h *HTTPS) Run(ctx context.Context, offer func([]byte, error)) {
	defer h.close()
	every(ctx, h.interval, func() {
		document, err := h.read(ctx)
		if ctx.Err() == nil {
			offer(document, err)
		}
	})
}

func (h *HTTPS) read(ctx context.Context) ([]byte, error) {
	if err := h.connect(); err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url, nil)
	if err != nil {
		return nil, errors.New("get the inventory: invalid URL") // which may hold a password
	}
	where := place(request.URL)
	if h.etag != "" {
		request.Header.Set("If-None-Match", h.etag)
	}
	response, err := h.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", where, withoutURL(err))
	}
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.StatusCode == http.StatusNotModified && h.etag != "":
		return h.document, nil
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("get %s: the server returned %d %s", where, response.StatusCode,
			http.StatusText(response.StatusCode))
	}
	document, err := io.ReadAll(io.LimitReader(response.Body, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", where, withoutURL(err))
	}
	if len(document) > maxBytes {
		return nil, fmt.Errorf("get %s: more than %d bytes", where, maxBytes)
	}
	h.etag, h.document = response.Header.Get("ETag"), document
	return document, nil
}
