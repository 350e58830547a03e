package inventory

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// HTTPS is a document on a server.
type HTTPS struct {
	url      string
	interval time.Duration
	client   *http.Client

	etag     string
	document []byte // that the ETag is of
}

// NewHTTPS prepares a source. Without a CA file the system's authorities count.
func NewHTTPS(url, caFile string, timeout, interval time.Duration) (*HTTPS, error) {
	var authorities *x509.CertPool
	if caFile != "" {
		data, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("read CA: %w", err)
		}
		authorities = x509.NewCertPool()
		if !authorities.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("read CA: %s holds no certificate", caFile)
		}
	}
	return &HTTPS{
		url: url, interval: interval,
		client: &http.Client{
			Timeout: timeout,
			Transport: &http.Transport{
				Proxy:             http.ProxyFromEnvironment,
				TLSClientConfig:   &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12},
				ForceAttemptHTTP2: true,
			},
			CheckRedirect: secureRedirect,
		},
	}, nil
}

// secureRedirect keeps a server from sending us to one that nobody vouches for.
func secureRedirect(next *http.Request, before []*http.Request) error {
	if next.URL.Scheme != "https" {
		return fmt.Errorf("redirect to %s: want https", next.URL)
	}
	if len(before) >= 5 {
		return errors.New("too many redirects")
	}
	return nil
}

// Run asks the server at every interval. As long as it says that nothing has
// changed, the document is not sent again.
func (h *HTTPS) Run(ctx context.Context, offer func([]byte, error)) {
	defer h.client.CloseIdleConnections()
	every(ctx, h.interval, func() {
		document, err := h.read(ctx)
		if ctx.Err() == nil {
			offer(document, err)
		}
	})
}

func (h *HTTPS) read(ctx context.Context) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url, nil)
	if err != nil {
		return nil, err
	}
	if h.etag != "" {
		request.Header.Set("If-None-Match", h.etag)
	}
	response, err := h.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.StatusCode == http.StatusNotModified && h.etag != "":
		return h.document, nil
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("get %s: the server says %s", h.url, response.Status)
	}
	document, err := io.ReadAll(io.LimitReader(response.Body, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", h.url, err)
	}
	if len(document) > maxBytes {
		return nil, fmt.Errorf("get %s: more than %d bytes", h.url, maxBytes)
	}
	h.etag, h.document = response.Header.Get("ETag"), document
	return document, nil
}
