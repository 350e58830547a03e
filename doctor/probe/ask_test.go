package probe

import (
	"context"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"
	"time"
)

// TestAsk asks servers of each kind: one of the cluster's CA, one of another, one without TLS, a closed port, and a port that says
// nothing.
func TestAsk(t *testing.T) {
	start := func(secure bool) *httptest.Server {
		s := httptest.NewUnstartedServer(http.NotFoundHandler()) // whatever it says is an answer
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		if secure {
			s.StartTLS()
		} else {
			s.Start()
		}
		t.Cleanup(s.Close)
		return s
	}
	ours, plain, closed := start(true), start(false), start(true)
	closed.Close()
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mute.Close() })
	address := func(s *httptest.Server) string { return s.Listener.Addr().String() }
	_, port, err := net.SplitHostPort(address(ours))
	if err != nil {
		t.Fatal(err)
	}
	list := []Target{
		{Subject: Service, Address: address(ours)},
		{Subject: Endpoint, Address: "localhost:" + port}, // the certificate is for 127.0.0.1 and example.com
		{Subject: Server, Address: address(plain)},
		{Subject: Endpoint, Address: address(closed)},
		{Subject: Kubelet, Address: "localhost:" + port},
		{Subject: Balancer, Address: address(plain)},
		{Subject: DNSTCP, Address: address(closed), Name: "kubernetes.default.svc.cluster.local."},
		{Subject: DNSUDP, Address: address(closed), Name: "kubernetes.default.svc.cluster.local."},
		{Subject: Server, Address: mute.Addr().String()},
		{Subject: Endpoint, Address: "no-such-name.invalid:6443"},
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ours.Certificate().Raw})
	a, err := Ask(t.Context(), &Task{Targets: list, CA: string(ca)})
	if err != nil {
		t.Fatal(err)
	}
	want := map[int]Unreachable{
		1: BadCertificate, 2: OtherProgram, 3: Refused, 6: Refused, 7: Refused, 8: Dropped, 9: NameUnknown,
	}
	got := map[int]Unreachable{}
	for _, f := range a.Failed {
		got[f.Target] = f.Kind
	}
	for i, target := range list {
		if got[i] != want[i] {
			t.Errorf("%s at %s: got %q, want %q: %+v", target.Subject, target.Address, got[i], want[i], a.Failed)
		}
	}
	if a.Asked != len(list) || a.Forwarding != "0" && a.Forwarding != "1" {
		t.Errorf("got %+v", a)
	}
}

// TestKinds: what a kernel says of an address without a way to it is told apart from a server of another protocol, and a name that
// there is not from a name server that does not say.
func TestKinds(t *testing.T) {
	for _, number := range []syscall.Errno{syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EPERM, syscall.EACCES, syscall.EADDRNOTAVAIL} {
		dial := &net.OpError{Op: "dial", Net: "udp", Err: os.NewSyscallError("connect", number)}
		if got := KindOf(dial); got != NoRoute {
			t.Errorf("%v: got %s", dial, got)
		}
		if got := kindOfDNS(&net.DNSError{Err: dial.Error(), Name: "a"}); got != NoRoute {
			t.Errorf("%v, of DNS: got %s", dial, got)
		}
	}
	for want, err := range map[Unreachable]*net.DNSError{
		NameUnknown: {Err: "no such host", IsNotFound: true}, NameUnresolved: {Err: "i/o timeout", IsTimeout: true},
	} {
		if got := kindOf(&net.OpError{Op: "dial", Err: err}); got != want {
			t.Errorf("%v: got %s, want %s", err, got, want)
		}
	}
}

// TestAsk_AnyAnswer: of a cluster whose domain is not known, DNS answers where it says that there is no such name.
func TestAsk_AnyAnswer(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	go func() {
		buffer := make([]byte, 1024)
		for {
			n, from, err := server.ReadFrom(buffer)
			if err != nil || n < 12 {
				return
			}
			copy(buffer[2:], []byte{0x81, 0x83, 0, 1, 0, 0, 0, 0, 0, 0}) // NXDOMAIN, with the question alone
			end := 12
			for buffer[end] != 0 {
				end += int(buffer[end]) + 1
			}
			_, _ = server.WriteTo(buffer[:end+5], from)
		}
	}()
	target := Target{Subject: DNSUDP, Address: server.LocalAddr().String(), Name: "kubernetes.default.svc.cluster.local."}
	tolerant := target
	tolerant.AnyAnswer = true
	a, err := Ask(t.Context(), &Task{Targets: []Target{target, tolerant}})
	if err != nil || len(a.Failed) != 1 || a.Failed[0].Target != 0 || a.Failed[0].Kind != NameUnknown {
		t.Errorf("got %+v, %v", a, err)
	}
}

// Where the time ends, no target is said not to answer.
func TestAsk_WithoutTime(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mute.Close() }()
	if a, err := Ask(ctx, &Task{Targets: []Target{{Subject: Service, Address: mute.Addr().String()}}}); err == nil {
		t.Errorf("got %+v", a)
	}
	if _, err := Ask(t.Context(), &Task{CA: "none"}); err == nil {
		t.Error("a CA that is none was taken")
	}
}

func TestLargest(t *testing.T) {
	link := func(name string, mtu int, flags net.Flags) net.Interface {
		return net.Interface{Name: name, MTU: mtu, Flags: flags}
	}
	links := []net.Interface{
		link("lo", 65536, net.FlagUp|net.FlagLoopback), link("eth0", 1500, net.FlagUp), link("eth1", 9000, net.FlagUp), link("eth2", 9500, 0),
		link("cni0", 9600, net.FlagUp),
	}
	if got := largest(links, func(name string) bool { return name != "cni0" }); got != 9000 {
		t.Errorf("got %d, want 9000", got)
	}
}
