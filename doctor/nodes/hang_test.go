package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Five seconds of waiting end within six, whatever the server does, and what could not be asked is no late node.
func TestWait_ServerThatHangs(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 5 seconds")
	}
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	status := func(code int, headers ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for _, h := range headers {
				name, value, _ := strings.Cut(h, ": ")
				w.Header().Set(name, value)
			}
			w.WriteHeader(code)
		}
	}
	tests := []struct {
		name    string
		config  func(t *testing.T) *rest.Config
		late    bool
		wantErr string
	}{
		{
			name:    "at TCP: nobody accepts",
			config:  func(t *testing.T) *rest.Config { return &rest.Config{Host: "https://" + silentTCP(t)} },
			wantErr: "deadline exceeded",
		},
		{
			name:    "at TLS: nobody shakes hands",
			config:  func(t *testing.T) *rest.Config { return &rest.Config{Host: "https://" + acceptsOnly(t)} },
			wantErr: "deadline exceeded",
		},
		{
			name:    "at each response",
			config:  serve(hang),
			wantErr: "deadline exceeded",
		},
		{
			name:    "429, come back in a second",
			config:  serve(status(http.StatusTooManyRequests, "Retry-After: 1")),
			wantErr: "wait for nodes",
		},
		{
			name:    "503",
			config:  serve(status(http.StatusServiceUnavailable)),
			wantErr: "wait for nodes",
		},
		{
			name:    "another cluster's CA",
			config:  func(t *testing.T) *rest.Config { return distrusting(serve(hang)(t)) },
			wantErr: "certificate",
		},
		{
			name:    "nodes are listed, and then it hangs",
			config:  serve(nodesAndThenNothing),
			late:    true,
			wantErr: "w1 Tainted: the cloud-controller-manager's pods cannot be read",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client := kubernetes.NewForConfigOrDie(tt.config(t))
			start := time.Now()
			_, err := Wait(within(t, 5*time.Second), client, WaitOptions{Until: Addressed, Changed: quiet})
			if took := time.Since(start); took > 25*time.Second { // a busy machine is late; a request has 30 s
				t.Errorf("took %s", took)
			}
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("got error %v, want %q", err, tt.wantErr)
			}
			var late *WaitError
			if got := errors.As(err, &late); got != tt.late {
				t.Errorf("got a late node: %v, want %v: %v", got, tt.late, err)
			}
		})
	}
}

func serve(h http.HandlerFunc) func(t *testing.T) *rest.Config {
	return func(t *testing.T) *rest.Config {
		t.Helper()
		ctx, stop := context.WithCancel(t.Context())
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h(w, r.WithContext(ctx))
		}))
		server.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients that distrust it
		server.StartTLS()
		t.Cleanup(func() { stop(); server.CloseClientConnections(); server.Close() })
		return &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	}
}

func distrusting(c *rest.Config) *rest.Config {
	c.Insecure = false
	return c
}

// nodesAndThenNothing lists one node that waits, and answers nothing else.
func nodesAndThenNothing(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/api/v1/nodes" || r.URL.Query().Get("watch") != "" {
		<-r.Context().Done()
		return
	}
	node := newNode("w1", tainted, unresolved)
	node.TypeMeta = metav1.TypeMeta{}
	list := corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, Items: []corev1.Node{*node}}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(list); err != nil {
		panic(err)
	}
}

// silentTCP is a port on loopback whose queue of connections is full, so that a further one gets no answer.
func silentTCP(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := errors.Join(
		syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}),
		syscall.Listen(fd, 0),
	); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return address // full
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
}

// acceptsOnly takes connections and says nothing.
func acceptsOnly(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
		}
	}()
	return listener.Addr().String()
}
