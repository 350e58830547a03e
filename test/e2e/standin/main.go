// Command standin takes the place of any cloud-controller-manager whose image cannot be had here. It does with its
// arguments and its environment what all of them do first: it opens every file that they name, asks the API server
// that it is given, and listens on its port, where /healthz answers in HTTP and HTTPS alike. What it found is one JSON
// line in its log; what it missed ends it.
//
// Reads: arguments, environment, the files they name. Writes: its log.
package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Environ()); err != nil {
		log.Fatalf("standin: %v", err)
	}
}

// report is what the test reads.
type report struct {
	Args   []string          `json:"args"`
	Files  map[string]string `json:"files"`
	Env    map[string]string `json:"env"`
	Server string            `json:"server"`
	Port   string            `json:"port"`
}

func run(ctx context.Context, args, env []string) error {
	r := report{Args: args, Files: map[string]string{}, Env: map[string]string{}, Port: "10258"}
	kubeconfig := ""
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "--secure-port", "--listen": // the second is for programs whose port no argument names
			r.Port = value
		case "--kubeconfig":
			kubeconfig = value
		case "--node-name":
			r.Port = "" // an agent: it runs on every node and has no port
		}
		if err := r.read(value); err != nil {
			return fmt.Errorf("%s: %w", arg, err)
		}
	}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		r.Env[name] = value
		if err := r.read(value); err != nil {
			return fmt.Errorf("%s: %w", e, err)
		}
	}
	var err error
	if r.Server, err = askServer(ctx, kubeconfig); err != nil {
		return err
	}
	if r.Port != "" {
		if err := serve(ctx, net.JoinHostPort("127.0.0.1", r.Port)); err != nil {
			return err
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// read opens what looks like a file below /etc.
func (r *report) read(value string) error {
	if info, err := os.Stat(value); !strings.HasPrefix(value, "/etc/") || err == nil && info.IsDir() {
		return nil
	}
	data, err := os.ReadFile(value)
	if err != nil {
		return err
	}
	r.Files[value] = string(data)
	return nil
}

func askServer(ctx context.Context, kubeconfig string) (string, error) {
	config, err := rest.InClusterConfig()
	if kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return "", err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	for { // the API server may be later than a static pod
		if _, err = client.Discovery().RESTClient().Get().AbsPath("/livez").DoRaw(ctx); err == nil {
			return config.Host, nil
		}
		select {
		case <-ctx.Done():
			return "", err
		case <-time.After(time.Second):
			log.Printf("standin: %v", err)
		}
	}
}

// serve answers both protocols on one port, told apart by their first byte.
func serve(ctx context.Context, address string) error {
	cert, err := selfSigned()
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		log.Print(server.Serve(&sniffer{listener, &tls.Config{Certificates: []tls.Certificate{cert}}}))
	}()
	return nil
}

type sniffer struct {
	net.Listener
	tls *tls.Config
}

// Accept peeks at the connection; a TLS handshake begins with 0x16.
func (s *sniffer) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	peeked := &peekedConn{conn, bufio.NewReader(conn)}
	if first, err := peeked.reader.Peek(1); err == nil && first[0] == 0x16 {
		return tls.Server(peeked, s.tls), nil
	}
	return peeked, nil
}

type peekedConn struct {
	net.Conn
	reader *bufio.Reader
}

func (c *peekedConn) Read(p []byte) (int, error) { return c.reader.Read(p) }

func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
