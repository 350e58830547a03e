package vip

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mdlayher/arp"
	"github.com/vishvananda/netns"
)

// The test's program is also the machines' programs: one that runs with the options in its argument, and an API server that answers /livez, with an error while
// the file of its third argument is there, and lists what is in files beside its first.
func TestMain(m *testing.M) {
	switch os.Getenv("VIP_TEST") {
	case "vip":
		var o Options
		if err := json.Unmarshal([]byte(os.Args[1]), &o); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := Run(ctx, o); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "api":
		server := &http.Server{
			Addr: ":6443", Handler: http.HandlerFunc(livez), ReadHeaderTimeout: time.Second,
			ErrorLog: log.New(io.Discard, "", 0), // clients that only connect
		}
		fmt.Fprintln(os.Stderr, server.ListenAndServeTLS(os.Args[1], os.Args[2]))
	default:
		os.Exit(m.Run())
	}
}

func livez(w http.ResponseWriter, r *http.Request) {
	if listed(w, r, filepath.Dir(os.Args[1])) {
		return
	}
	if _, err := os.Stat(os.Args[3]); err == nil {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

func apiServerCertificate(t *testing.T) (certificate tls.Certificate, der []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"}, DNSNames: []string{"kubernetes"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err = x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, der
}

// cp is a control plane: a network namespace with a link to the bridge, and two programs.
type cp struct {
	name, mac string
	host      int    // of its address
	hears     string // the network where it hears the others, as a prefix of text
	ifi       string // where it is to answer
	dir       string
	ns        netns.NsHandle
	vip, api  *exec.Cmd
}

// run starts the program of this package.
func (c *cp) run(t *testing.T, o Options) {
	t.Helper()
	o.NodeName, o.APIServerPort, o.CAFile, o.MetricsAddress = c.name, 6443, c.dir+"/ca.crt", MetricsAddress
	text, err := json.Marshal(o)
	must(t, err)
	c.vip = c.start(t, "vip", string(text))
}

// start runs a program in the namespace: a child has that of the thread that starts it.
func (c *cp) start(t *testing.T, role string, args ...string) *exec.Cmd {
	t.Helper()
	before, err := netns.Get()
	must(t, err)
	must(t, netns.Set(c.ns))
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "VIP_TEST="+role)
	cmd.Stderr = &lines{t: t, prefix: c.name}
	err = cmd.Start()
	must(t, netns.Set(before))
	must(t, err)
	t.Cleanup(func() { kill(cmd) })
	return cmd
}

func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill() // it may have ended
	_ = cmd.Wait()
}

type lines struct {
	t      *testing.T
	prefix string
}

func (l *lines) Write(text []byte) (int, error) {
	if l.t.Context().Err() == nil {
		l.t.Logf("%s: %s", l.prefix, strings.TrimSpace(string(text)))
	}
	return len(text), nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Three control planes: one answers; when its API server stops another does, when a machine dies the next. What a client
// sees is measured; at no time do two answer.
func TestVIP_Moves(t *testing.T) {
	machines, client := apart(t, 3)
	owner := machines[client.wait(t, machines, 20*time.Second, "")]
	t.Logf("%s owns the address", owner.name)
	if !onLoopback(t, owner) {
		t.Errorf("%s answers for the address, and has it not on lo", owner.name)
	}
	begin := time.Now()
	kill(owner.api)
	next := machines[client.wait(t, machines, 10*time.Second, owner.mac)]
	t.Logf("API server stopped: %s has it after %s", next.name, client.found.Sub(begin).Round(time.Millisecond))
	if took := client.found.Sub(begin); took > 15*time.Second {
		t.Errorf("API server stopped: taken after %s", took)
	}
	if onLoopback(t, owner) {
		t.Errorf("%s has no API server, and the address on lo", owner.name)
	}
	begin = time.Now()
	kill(next.vip)
	kill(next.api)
	next.down(t)
	owner.startAPI(t) // else two of three are away
	last := machines[client.wait(t, machines, 15*time.Second, next.mac)]
	t.Logf("machine died: %s has it after %s", last.name, client.found.Sub(begin).Round(time.Millisecond))
	if client.double > 0 {
		t.Errorf("two answered at the same time, %d times", client.double)
	}
}

// While no API server answers the address stays with the one that had it; then it goes to the first that does.
func TestVIP_NoAPIServer(t *testing.T) {
	machines, client := apart(t, 3)
	client.wait(t, machines, 20*time.Second, "")
	for _, m := range machines {
		kill(m.api)
	}
	time.Sleep(2 * time.Second)
	owner := machines[client.wait(t, machines, 5*time.Second, "")]
	for _, m := range machines {
		if there := onLoopback(t, m); there != (m == owner) {
			t.Errorf("%s has the address on lo: %t, and %s answers for it", m.name, there, owner.name)
		}
	}
	var back *cp
	for _, m := range machines {
		if m != owner {
			back = m
		}
	}
	back.startAPI(t)
	if next := machines[client.wait(t, machines, 10*time.Second, owner.mac)]; next != back {
		t.Errorf("%s has the address, want the one whose API server answers: %s", next.name, back.name)
	}
	if client.double > 0 {
		t.Errorf("two answered at the same time, %d times", client.double)
	}
}

// asker asks for the address all the time, as a client with a cold cache.
type asker struct {
	arp    *arp.Client
	double int
	found  time.Time // when the present owner first answered
}

func newAsker(t *testing.T, name string) *asker {
	t.Helper()
	ifi, err := net.InterfaceByName(name)
	must(t, err)
	client, err := arp.Dial(ifi)
	must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return &asker{arp: client}
}

// wait asks until one answers that is not the former one, and returns its MAC. Then it goes on for half a second:
// whoever speaks for the address after another one has begun to is a second one. A busy machine has a minute.
func (a *asker) wait(t *testing.T, machines map[string]*cp, limit time.Duration, former string) string {
	t.Helper()
	a.forget(t)
	limit = max(limit, time.Minute)
	found, end, left := "", time.Now().Add(limit), map[string]bool{former: true}
	for time.Now().Before(end) {
		must(t, a.arp.SetDeadline(time.Now().Add(50*time.Millisecond)))
		_ = a.arp.Request(net.ParseIP("192.0.2.10").To4()) // the bridge may not forward yet
		for {
			p, _, err := a.arp.Read()
			if err != nil {
				break
			}
			mac := p.SenderHardwareAddr.String()
			switch {
			case p.SenderIP.String() != "192.0.2.10" || machines[mac] == nil:
			case found == "" && mac != former:
				found, end = mac, time.Now().Add(500*time.Millisecond)
			case found != "" && left[mac]:
				a.double++
			case found != "" && mac != found:
				left[found], found = true, mac
			}
		}
	}
	if found == "" {
		t.Fatalf("nobody new answers within %s", limit)
	}
	a.found = end.Add(-500 * time.Millisecond)
	return found
}

// forget drops what has arrived: it may be of a former owner.
func (a *asker) forget(t *testing.T) {
	t.Helper()
	must(t, a.arp.SetDeadline(time.Now().Add(10*time.Millisecond)))
	for {
		if _, _, err := a.arp.Read(); err != nil {
			return
		}
	}
}
