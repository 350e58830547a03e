package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// inventoryServer is an https server beside the machines, which says what it is told to say.
type inventoryServer struct {
	url, authority string

	mu      sync.Mutex
	status  int
	content string
}

func (s *inventoryServer) answer(status int, content string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.content = status, content
}

// serveInventory listens at a machine's address: the socket is made in the machine's network, and stays there.
func serveInventory(t *testing.T, l *lab, machine string) *inventoryServer {
	t.Helper()
	address := strings.TrimSpace(l.must(t, machine, "ip -4 -o address show dev eth0 | awk '{print $4}' | cut -d/ -f1"))
	s := &inventoryServer{}
	var at string
	at, s.authority = l.serveTLS(t, machine, net.JoinHostPort(address, "0"), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		w.WriteHeader(s.status)
		_, _ = io.WriteString(w, s.content)
	}), address)
	s.url = "https://" + at + "/machines.yaml"
	return s
}

// serveTLS serves at an address of a machine until the test ends, with a certificate for hosts. It returns the address with its port, and
// the certificate as PEM.
func (l *lab) serveTLS(t *testing.T, machine, address string, handler http.Handler, hosts ...string) (at, authority string) {
	t.Helper()
	listener, err := listenIn(t.Context(), l.pid(t, machine), address)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	_ = server.Listener.Close()
	server.Listener = listener
	certificate, authority := selfSigned(t, hosts...)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	return listener.Addr().String(), authority
}

// selfSigned makes a certificate for addresses or host names, and returns it as PEM, too.
func selfSigned(t *testing.T, hosts ...string) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a server beside the machines"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// listenIn opens a socket in the network of a process. Its thread is not used again: it may not have come back.
func listenIn(ctx context.Context, pid int, address string) (listener net.Listener, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		var network *os.File
		if network, err = os.Open(fmt.Sprintf("/proc/%d/ns/net", pid)); err != nil {
			return
		}
		defer network.Close() //nolint:errcheck // only read
		if err = unix.Setns(int(network.Fd()), unix.CLONE_NEWNET); err == nil {
			listener, err = new(net.ListenConfig).Listen(ctx, "tcp", address)
		}
	}()
	<-done
	return listener, err
}

// pid is the host's number of a machine's first process.
func (l *lab) pid(t *testing.T, machine string) int {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), labBinary, "list", "-o", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var labs []struct {
		Name     string
		Machines []struct {
			Name string
			PID  int
		}
	}
	if err := json.Unmarshal(out, &labs); err != nil {
		t.Fatal(err)
	}
	for _, other := range labs {
		for _, m := range other.Machines {
			if other.Name == l.name && m.Name == machine && m.PID != 0 {
				return m.PID
			}
		}
	}
	t.Fatalf("machine %s of lab %s does not run", machine, l.name)
	return 0
}
