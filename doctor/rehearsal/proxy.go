package rehearsal

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"

	"github.com/ccmadm/ccmadm/templates"
)

// proxy is the API server that the program knows. It serves HTTPS on loopback, to clients with its token.
type proxy struct {
	*shadow
	kubeconfig string
	token      string
	mayRead    []templates.Rule
	reads      *httputil.ReverseProxy
	memory     memory
	server     *http.Server
}

// errWrite is the last lock: nothing but GET leaves this process for the cluster, whatever the rules before it let
// pass.
var errWrite = errors.New("a rehearsal sends nothing but GET")

type getOnly struct{ next http.RoundTripper }

// RoundTrip refuses a request with another method than GET, with a body, or that wants to become another protocol.
func (g getOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet || r.Body != nil && r.Body != http.NoBody || r.Header.Get("Upgrade") != "" {
		return nil, errWrite
	}
	return g.next.RoundTrip(r)
}

// readOnly returns a configuration of whose clients nothing but GET gets out.
func readOnly(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return getOnly{next} })
	config.Timeout = 0 // a watch stays
	return config
}

// serve starts a proxy, and writes its kubeconfig into dir.
func serve(ctx context.Context, upstream *rest.Config, s *shadow, mayRead []templates.Rule, dir string) (*proxy, error) {
	target, _, err := rest.DefaultServerUrlFor(upstream)
	if err != nil {
		return nil, fmt.Errorf("read the API server's address: %w", err)
	}
	transport, err := rest.TransportFor(upstream)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	p := &proxy{shadow: s, token: rand.Text(), mayRead: mayRead, kubeconfig: filepath.Join(dir, "kubeconfig")}
	quiet := log.New(io.Discard, "", 0) // what the program does to its connections is its own affair
	p.reads = &httputil.ReverseProxy{
		//nolint:contextcheck // a request has its own
		Rewrite:        func(r *httputil.ProxyRequest) { redirect(r, target) },
		Transport:      transport,
		FlushInterval:  -1,
		ErrorLog:       quiet,
		ModifyResponse: p.rewrite,
	}
	cert, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return nil, fmt.Errorf("make the proxy's certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("make the proxy's certificate: %w", err)
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the cloud-controller-manager: %w", err)
	}
	if err := p.writeKubeconfig("https://"+listener.Addr().String(), cert); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	p.server = &http.Server{
		Handler: p, ErrorLog: quiet, ReadHeaderTimeout: 10 * time.Second,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
	}
	go func() { _ = p.server.ServeTLS(listener, "", "") }() // its end is ours
	return p, nil
}

func (p *proxy) writeKubeconfig(address string, ca []byte) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["proxy"] = &clientcmdapi.Cluster{Server: address, CertificateAuthorityData: ca}
	config.AuthInfos["program"] = &clientcmdapi.AuthInfo{Token: p.token}
	config.Contexts["rehearsal"] = &clientcmdapi.Context{Cluster: "proxy", AuthInfo: "program"}
	config.CurrentContext = "rehearsal"
	if err := clientcmd.WriteToFile(*config, p.kubeconfig); err != nil {
		return fmt.Errorf("write the proxy's kubeconfig: %w", err)
	}
	return nil
}

func (p *proxy) stop() { _ = p.server.Close() }

// redirect leaves of a request what a read needs. Who asks, on whose behalf and in which protocol is not among it.
func redirect(r *httputil.ProxyRequest, target *url.URL) {
	r.SetURL(target)
	r.Out.Host, r.Out.Body, r.Out.ContentLength = "", nil, 0
	header := http.Header{"Accept": r.In.Header["Accept"], "User-Agent": r.In.Header["User-Agent"]}
	if ofNodes(r.In.Context()) {
		header.Set("Accept", acceptJSON(r.In.Header.Get("Accept")))
	}
	r.Out.Header = header
}

// ServeHTTP passes reads on, answers writes itself, and refuses everything else.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+p.token)) != 1 {
		p.deny(w, http.StatusUnauthorized, "", "not the token of this rehearsal")
		return
	}
	q, err := parse(r)
	if err != nil {
		p.deny(w, http.StatusForbidden, r.Method+" "+r.URL.Path, err.Error())
		return
	}
	switch {
	case q.inMemory():
		p.memory.serve(w, r, q)
	case r.Method != http.MethodGet:
		p.respond(w, r, q)
	case q.isNodes() && p.phantom(q.name) != nil:
		reply(w, http.StatusOK, p.phantom(q.name))
	case !p.readable(q):
		p.deny(w, http.StatusForbidden, q.what("read"), "the provider's profile grants no such read")
	default:
		p.reads.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), nodesKey{}, q.isNodes())))
	}
}
