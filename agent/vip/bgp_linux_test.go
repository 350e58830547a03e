package vip

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

const (
	announcedVIP = "203.0.113.10"
	// noticed is when the router has long noticed by BFD, or by the session's end, that a path is gone: by the hold time it does after 9 s.
	noticed = 6 * time.Second
)

// fabric is control planes behind a router, which is BIRD in the test's namespace.
type fabric struct {
	cps []*cp
}

// newFabric makes n of them; the router looks for them by BFD, too, ten times a second.
func newFabric(t *testing.T, n int) *fabric {
	t.Helper()
	ownNamespace(t)
	f := &fabric{cps: slices.SortedFunc(maps.Values(wire(t, n)), func(a, b *cp) int { return a.host - b.host })}
	must(t, os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0))
	must(t, os.WriteFile("/proc/sys/net/ipv4/fib_multipath_hash_policy", []byte("1"), 0))
	var config strings.Builder
	config.WriteString("router id 192.0.2.1;\nprotocol device {}\n" +
		"protocol kernel { ipv4 { export where source = RTS_BGP; }; merge paths on; }\n" +
		"protocol bfd { interface \"client\" { interval 100 ms; multiplier 3; }; }\n")
	for _, c := range f.cps {
		fmt.Fprintf(&config, "protocol bgp %s { local 192.0.2.1 as 64500; neighbor 192.0.2.%d as 64512; hold time 9;"+
			" bfd on; error wait time 1, 5; ipv4 { import all; export none; }; }\n", c.name, c.host)
	}
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "bird.conf"), []byte(config.String()), 0o600))
	bird, err := manifeststest.Bird("bird")
	must(t, err)
	cmd := exec.Command(bird[0], append(bird[1:], "-f", "-c", filepath.Join(dir, "bird.conf"),
		"-s", filepath.Join(dir, "ctl"), "-P", filepath.Join(dir, "pid"))...)
	cmd.Stderr = &lines{t: t, prefix: "router"}
	must(t, cmd.Start())
	t.Cleanup(func() { kill(cmd) })
	for _, c := range f.cps {
		c.announce(t)
	}
	f.await(t, 20*time.Second, f.cps...)
	return f
}

// announce starts the program that announces the address.
func (c *cp) announce(t *testing.T) {
	t.Helper()
	const text = `{"localASN":64512,"peers":[{"address":"192.0.2.1","asn":64500,` +
		`"bfd":{"enabled":true,"interval":"100ms"}}]}`
	bgp := &config.ControlPlaneVIPBGP{}
	must(t, json.Unmarshal([]byte(text), bgp))
	c.run(t, Options{NodeAddress: addr(fmt.Sprintf("192.0.2.%d", c.host)), Address: addr(announcedVIP), BGP: bgp})
}

// awaitGone waits until the address is no more on lo.
func (c *cp) awaitGone(t *testing.T, limit time.Duration) {
	t.Helper()
	for end := time.Now().Add(max(limit, time.Minute)); c.has(t, announcedVIP); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: the address is still on lo after %s", c.name, limit)
		}
	}
}

// hops are where the router sends what is for the address.
func (f *fabric) hops(t *testing.T) []string {
	t.Helper()
	_, dst, err := net.ParseCIDR(announcedVIP + "/32")
	must(t, err)
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Dst: dst}, netlink.RT_FILTER_DST)
	must(t, err)
	var hops []string
	for _, r := range routes {
		if r.Gw != nil {
			hops = append(hops, r.Gw.String())
		}
		for _, h := range r.MultiPath {
			hops = append(hops, h.Gw.String())
		}
	}
	slices.Sort(hops)
	return hops
}

// await connects to the address until these machines and no others have it, and returns when that was, and when the
// last connection was lost. A busy machine has a minute.
func (f *fabric) await(t *testing.T, limit time.Duration, want ...*cp) (took, last time.Duration) {
	t.Helper()
	var gateways []string
	for _, c := range want {
		gateways = append(gateways, fmt.Sprintf("192.0.2.%d", c.host))
	}
	limit = max(limit, time.Minute)
	begin, tried, lost := time.Now(), 0, 0
	for took == 0 || time.Since(begin) < took+500*time.Millisecond {
		if time.Since(begin) > limit {
			t.Fatalf("after %s the router sends to %v, want %v", limit, f.hops(t), gateways)
		}
		if took == 0 && slices.Equal(f.hops(t), gateways) {
			took = time.Since(begin)
		}
		tried++
		// A packet that is lost is sent again after a second.
		if conn, err := net.DialTimeout("tcp", announcedVIP+":6443", 900*time.Millisecond); err != nil {
			lost, last = lost+1, time.Since(begin)
		} else {
			_ = conn.Close()
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Logf("the router sends to %v after %s; lost %d of %d, the last after %s", gateways, took.Round(time.Millisecond),
		lost, tried, last.Round(time.Millisecond))
	return took, last
}

// Three control planes have the address at once. One whose API server stops, whose program ends or is killed, or that
// dies, has it no more, and again when it is back.
func TestVIPByBGP(t *testing.T) {
	f := newFabric(t, 3)
	a, b, c := f.cps[0], f.cps[1], f.cps[2]
	for _, m := range f.cps {
		if code, text := m.readyz(t); code != http.StatusOK || !m.has(t, announcedVIP) {
			t.Errorf("%s: /readyz says %d %q, and the address is on lo: %t", m.name, code, text, m.has(t, announcedVIP))
		}
	}
	t.Log("API server killed")
	kill(a.api)
	if took, _ := f.await(t, 5*time.Second, b, c); took > noticed {
		t.Errorf("gone after %s", took)
	}
	a.awaitGone(t, 5*time.Second)
	code, text := a.readyz(t)
	if code != http.StatusServiceUnavailable || !strings.Contains(text, "API server of this machine") {
		t.Errorf("/readyz says %d %q", code, text)
	}
	a.startAPI(t)
	f.await(t, 5*time.Second, a, b, c)

	t.Log("program ended")
	must(t, a.vip.Process.Signal(syscall.SIGTERM))
	if _, last := f.await(t, 5*time.Second, b, c); last > 0 {
		t.Error("lost connections while the program of one ended")
	}
	must(t, a.vip.Wait())
	if a.has(t, announcedVIP) {
		t.Error("the address is still on lo")
	}
	a.announce(t)
	f.await(t, 20*time.Second, a, b, c)

	t.Log("program killed")
	kill(a.vip)
	if took, _ := f.await(t, 5*time.Second, b, c); took > noticed {
		t.Errorf("nobody asks the API server, and its path was there for %s", took)
	}
	kill(a.api) // what it left on lo is taken away by its successor
	a.announce(t)
	a.awaitGone(t, 20*time.Second)
	f.await(t, 5*time.Second, b, c)
	a.startAPI(t)
	f.await(t, 20*time.Second, a, b, c)

	t.Log("machine died")
	b.down(t)
	if took, _ := f.await(t, 5*time.Second, a, c); took > noticed {
		t.Errorf("a dead machine had its path for %s", took)
	}
	b.up(t)
	f.await(t, 20*time.Second, a, b, c)
}

// While no API server answers nobody has the address: the first that answers again has it, alone.
func TestVIPByBGP_NoAPIServer(t *testing.T) {
	f := newFabric(t, 2)
	for _, m := range f.cps {
		must(t, os.WriteFile(m.late(), nil, 0o600))
	}
	f.await(t, 5*time.Second)
	must(t, os.Remove(f.cps[1].late()))
	if took, _ := f.await(t, 5*time.Second, f.cps[1]); took > noticed {
		t.Errorf("it has the address after %s", took)
	}
}

// A router that is in another AS is named at /readyz, and the address is on lo for clients of the machine itself.
func TestVIPByBGP_NoSession(t *testing.T) {
	ownNamespace(t)
	for _, m := range wire(t, 1) {
		m.announce(t)
		end := time.Now().Add(time.Minute)
		for {
			if !m.has(t, announcedVIP) {
				time.Sleep(100 * time.Millisecond)
				continue
			}
			_, text := m.readyz(t)
			if strings.Contains(text, "no router has the address; session with 192.0.2.1 is ") &&
				strings.Contains(text, "refuses connections") {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("/readyz says %q", text)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}
