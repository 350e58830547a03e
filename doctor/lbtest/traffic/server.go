package traffic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// Identity is what a server says of itself.
type Identity struct {
	// Run is the ID of the test run; the server answers no requests of other runs.
	Run string
	// Server and Node are the names of the pod and its Node.
	Server, Node string
}

// headerTimeout is how long a client may take for the first line of its request.
const headerTimeout = 5 * time.Second

// Serve answers by TCP and UDP until ctx ends. It closes both sockets.
func Serve(ctx context.Context, tcp net.Listener, udp net.PacketConn, id Identity) error {
	server := &http.Server{ReadHeaderTimeout: headerTimeout, Handler: id}
	server.SetKeepAlivesEnabled(false)
	stop := context.AfterFunc(ctx, func() {
		_ = server.Close()
		_ = udp.Close()
	})
	defer stop()
	failed := make(chan error, 2)
	go func() { failed <- server.Serve(tcp) }()
	go func() { failed <- id.serveUDP(udp) }()
	err := <-failed
	_, _ = server.Close(), udp.Close()
	<-failed
	if ctx.Err() != nil || errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("serve requests: %w", err)
}

// ServeHTTP answers a request by TCP.
func (id Identity) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == HealthPath {
		return
	}
	run, nonce, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if run != id.Run {
		http.Error(w, "the request is not of this test run", http.StatusNotFound)
		return
	}
	_, _ = w.Write(id.answer(nonce, r.RemoteAddr))
}

func (id Identity) serveUDP(conn net.PacketConn) error {
	buffer := make([]byte, largest)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if err != nil {
			return err
		}
		if data := id.Datagram(buffer[:n], from.String()); data != nil {
			_, _ = conn.WriteTo(data, from)
		}
	}
}

// Datagram is the answer to a request by UDP from IP:PORT; nil: it is of another run.
func (id Identity) Datagram(request []byte, from string) []byte {
	run, nonce, _ := strings.Cut(string(request), "/")
	if run != id.Run {
		return nil
	}
	return id.answer(nonce, from)
}

func (id Identity) answer(nonce, from string) []byte {
	host, _, err := net.SplitHostPort(from)
	if err != nil {
		host = from
	}
	a := Answer{Run: id.Run, Nonce: nonce, Server: id.Server, Node: id.Node, Client: host}
	data, _ := json.Marshal(a) // it has strings only
	return data
}
