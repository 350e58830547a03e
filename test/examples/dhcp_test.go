//go:build linux

package examples

import (
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const lan = `{"lan": {"servers": ["192.0.2.1"]}}`

// TestDHCP runs dhcp.py with dnsmasq, and calls it as the cloud-controller-manager does.
func TestDHCP(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	d := newDNSMasq(t)
	d.start(t, "--no-ping", "--dhcp-sequential-ip", "--dhcp-range=192.0.2.100,192.0.2.103,255.255.255.0,1h")
	a, state := startDHCP(t, lan)
	for _, tt := range []struct {
		name, method, path, token, more string
		want                            int
		body                            string
	}{
		{"another token", "PUT", "lan/u1/ipv4", "wrong", "", 401, "another token"},
		{"another pool", "PUT", "wan/u1/ipv4", "good", "", 409, "pool wan is not in POOLS"},
		{"another family", "PUT", "lan/u1/ipv6", "good", "", 409, "IPv4 addresses only"},
		{"a release of another family", "DELETE", "lan/u1/ipv6", "good", "", 404, "{}"},
		{"no path", "PUT", "", "good", "", 400, "cannot be read"},
		{"a path that is too short", "PUT", "u1/ipv4", "good", "", 400, "cannot be read"},
		{"an address", "PUT", "lan/u1/ipv4", "good", "", 200, `{"address": "192.0.2.100"}`},
		{"the same again", "PUT", "lan/u1/ipv4", "good", inUse("192.0.2.100"), 200, `{"address": "192.0.2.100"}`},
		{"the next Service", "PUT", "lan/u2/ipv4", "good", "", 200, `{"address": "192.0.2.101"}`},
		{"a wanted one", "PUT", "lan/u3/ipv4", "good", `, "wanted": "192.0.2.103"`, 200, `{"address": "192.0.2.103"}`},
		{"another one is wanted", "PUT", "lan/u3/ipv4", "good", `, "wanted": "192.0.2.102"`, 200, `{"address": "192.0.2.102"}`},
		{"another Service's", "PUT", "lan/u4/ipv4", "good", `, "wanted": "192.0.2.100"`, 409, "does not offer 192.0.2.100"},
		{"another Service's, in use", "PUT", "lan/u4/ipv4", "good", inUse("192.0.2.100"), 409, "does not offer 192.0.2.100"},
		{"a release of what is another Service's", "DELETE", "lan/u4/ipv4", "good", "", 200, "{}"},
		{"outside of the range", "PUT", "lan/u4/ipv4", "good", `, "wanted": "192.0.2.9"`, 409, "does not offer 192.0.2.9"},
		{"no address", "PUT", "lan/u4/ipv4", "good", `, "wanted": "x"`, 400, "cannot be read"},
		{"taken along", "PUT", "lan/u5/ipv4", "good", inUse("192.0.2.101") + `, "from": "lan/u2"`, 200, `"192.0.2.101"`},
		{"a release of what was taken along", "DELETE", "lan/u2/ipv4", "good", "", 404, "{}"},
		{"another one's", "PUT", "lan/u6/ipv4", "good", inUse("192.0.2.100") + `, "from": "lan/u2"`, 409, "does not offer 192.0.2.100"},
		{"the former Service", "PUT", "lan/u2/ipv4", "good", "", 200, `{"address": "192.0.2.103"}`},
		{"none is left", "PUT", "lan/u7/ipv4", "good", "", 409, "its range is full"},
		{"one that is in use since before", "PUT", "lan/u8/ipv4", "good", inUse("192.0.2.9"), 409, "does not offer 192.0.2.9"},
		{"a release", "DELETE", "lan/u1/ipv4", "good", "", 200, "{}"},
		{"a release again", "DELETE", "lan/u1/ipv4", "good", "", 404, "{}"},
		{"a free one", "PUT", "lan/u7/ipv4", "good", "", 200, `{"address": "192.0.2.100"}`},
		{"a release of the one taken along", "DELETE", "lan/u5/ipv4", "good", "", 200, "{}"},
	} {
		code, body := callIPAM(t, tt.method, "http://"+a.address+"/c/"+tt.path, tt.token, `{"namespace": "shop", "name": "web"`+tt.more+"}")
		if code != tt.want || !strings.Contains(body, tt.body) {
			t.Errorf("%s: got %d %s, want %d %s", tt.name, code, body, tt.want, tt.body)
		}
		switch tt.name {
		case "another one is wanted":
			d.has(t, tt.name, "192.0.2.100", "192.0.2.101", "192.0.2.102")
		case "a release":
			d.has(t, tt.name, "192.0.2.101", "192.0.2.102", "192.0.2.103")
		}
	}
	d.has(t, "the end", "192.0.2.100", "192.0.2.102", "192.0.2.103")
	if info, err := os.Stat(state); err != nil || info.Mode() != 0o600 {
		t.Errorf("the state file: %v, %v", info, err)
	}
	if text := readFile(t, d.dir+"/log"); strings.Contains(text, "web") || strings.Contains(text, "shop") {
		t.Error("dnsmasq has been sent a name that tenants choose")
	}
}

// Calls of one path come one after the other, and those of others have addresses of their own.
func TestDHCP_Parallel(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	d := newDNSMasq(t)
	d.start(t, "--no-ping", "--dhcp-range=192.0.2.100,192.0.2.110,255.255.255.0,1h")
	a, _ := startDHCP(t, lan)
	var mu sync.Mutex
	var wg sync.WaitGroup
	got := map[string][]string{}
	for i := range 24 {
		path := "lan/u" + string(rune('a'+i%6)) + "/ipv4"
		wg.Go(func() {
			_, body := a.call(t, "PUT", path, "")
			mu.Lock()
			defer mu.Unlock()
			got[path] = append(got[path], body)
		})
	}
	wg.Wait()
	var all []string
	for path, bodies := range got {
		if bodies = slices.Compact(bodies); len(bodies) != 1 || !strings.Contains(bodies[0], `"192.0.2.1`) {
			t.Errorf("%s: got %v, want one address", path, bodies)
		}
		all = append(all, bodies[0])
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) != 6 || len(d.leases()) != 6 {
		t.Errorf("6 Services have %v, and dnsmasq %v", all, d.leases())
	}
}

// dnsmasq probes each new address for 3 s, and reads no message meanwhile. Services that ask at once get addresses all the same, and one
// whose address answers gets a lease for it.
func TestDHCP_Probes(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	d := newDNSMasq(t)
	d.inside(t, "ip", "address", "add", "192.0.2.110/24", "dev", "veth1")
	d.start(t, "--dhcp-authoritative", "--dhcp-range=192.0.2.100,192.0.2.110,255.255.255.0,1h")
	a, _ := startDHCP(t, lan)
	a.gives(t, "lan/u0/ipv4", inUse("192.0.2.110"), "192.0.2.110")
	left := []string{"lan/u1/ipv4", "lan/u2/ipv4", "lan/u3/ipv4", "lan/u4/ipv4", "lan/u5/ipv4", "lan/u6/ipv4", "lan/u7/ipv4"}
	for len(left) > 0 {
		var mu sync.Mutex
		var wg sync.WaitGroup
		var failed []string
		for _, path := range left {
			wg.Go(func() {
				if code, _ := a.call(t, "PUT", path, ""); code != 200 {
					mu.Lock()
					defer mu.Unlock()
					failed = append(failed, path)
				}
			})
		}
		wg.Wait()
		if len(failed) == len(left) {
			t.Fatalf("none of %d Services got an address", len(left))
		}
		left = failed
	}
	if len(d.leases()) != 8 {
		t.Errorf("dnsmasq has %v, want 8 leases", d.leases())
	}
}

// Leases are renewed without a call, by the next start, too, and come back after dnsmasq has lost them.
func TestDHCP_Renews(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	d := newDNSMasq(t)
	options := []string{"--no-ping", "--dhcp-range=192.0.2.100,192.0.2.110,255.255.255.0,2m", "--dhcp-option=option:T1,5"}
	d.start(t, options...)
	a, state := startDHCP(t, lan)
	address := a.gives(t, "lan/u1/ipv4", "", "")
	renewed := func(what string) {
		t.Helper()
		before := d.leases()[address]
		within(t, time.Minute, what, func() bool { return d.leases()[address].After(before) })
	}
	renewed("the lease is renewed")

	_ = a.cmd.Process.Kill()
	_ = a.cmd.Wait()
	time.Sleep(6 * time.Second)
	if left := time.Until(d.leases()[address]); left > 115*time.Second {
		t.Fatalf("%v are left of the lease: something else has renewed it", left)
	}
	discovers := strings.Count(d.log(), "DHCPDISCOVER")
	a = restartDHCP(t, state, lan)
	renewed("the lease is renewed after a restart")
	a.gives(t, "lan/u1/ipv4", inUse(address), address)
	if n := strings.Count(d.log(), "DHCPDISCOVER"); n != discovers {
		t.Errorf("there were %d DHCPDISCOVER after the restart, want none", n-discovers)
	}

	d.stop()
	if err := os.Remove(d.dir + "/leases"); err != nil {
		t.Fatal(err)
	}
	d.start(t, options...)
	within(t, time.Minute, "dnsmasq has the lease again", func() bool { return !d.leases()[address].IsZero() })
	if !strings.Contains(d.log(), "DHCPNAK") {
		t.Error("dnsmasq has refused no lease: it has lost none")
	}
}

// An adapter that has lost its state asks with the same identifiers.
func TestDHCP_LostState(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	d := newDNSMasq(t)
	d.start(t, "--no-ping", "--dhcp-range=192.0.2.100,192.0.2.110,255.255.255.0,1h")
	a, _ := startDHCP(t, lan)
	used, unused := a.gives(t, "lan/u1/ipv4", "", ""), a.gives(t, "lan/u2/ipv4", "", "")
	_ = a.cmd.Process.Kill()
	_ = a.cmd.Wait()
	a, _ = startDHCP(t, lan)
	a.gives(t, "lan/u1/ipv4", inUse(used), used)
	a.gives(t, "lan/u2/ipv4", "", unused)
	if n := len(d.leases()); n != 2 {
		t.Errorf("dnsmasq has %v, want 2 leases", d.leases())
	}
	a.call(t, "DELETE", "lan/u1/ipv4", "")
	d.has(t, "a release", unused)
}

// While the server does not answer, Services keep their addresses, and new ones get none.
func TestDHCP_Unanswered(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	d := newDNSMasq(t)
	options := []string{"--no-ping", "--dhcp-range=192.0.2.100,192.0.2.110,255.255.255.0,2m", "--dhcp-option=option:T1,5"}
	d.start(t, options...)
	a, _ := startDHCP(t, lan, "TIMEOUT=6")
	address := a.gives(t, "lan/u1/ipv4", "", "")
	d.stop()
	time.Sleep(6 * time.Second) // the time to renew has come
	a.gives(t, "lan/u1/ipv4", inUse(address), address)
	began := time.Now()
	code, body := a.call(t, "PUT", "lan/u2/ipv4", "")
	if took := time.Since(began); code != 503 || !strings.Contains(body, "does not answer in time") || took > 20*time.Second {
		t.Errorf("got %d %s after %v, want 503 within TIMEOUT", code, body, took)
	}
	if code, body = a.call(t, "PUT", "lan/u3/ipv4", inUse("192.0.2.105")); code != 503 {
		t.Errorf("an address that is in use since before: got %d %s, want 503", code, body)
	}
	d.start(t, options...)
	a.gives(t, "lan/u2/ipv4", "", "")
	a.gives(t, "lan/u3/ipv4", inUse("192.0.2.105"), "192.0.2.105")
}

// A range for one pool, another subnet, and an address that another machine has.
func TestDHCP_Ranges(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	d := newDNSMasq(t)
	d.inside(t, "ip", "address", "add", "192.0.2.101/24", "dev", "veth1")
	d.start(t, "--no-ping", "--dhcp-sequential-ip", "--dhcp-vendorclass=set:lan,ccmadm/lan",
		"--dhcp-range=tag:lan,192.0.2.100,192.0.2.102,255.255.255.0,1h", "--dhcp-range=198.51.100.10,198.51.100.20,255.255.255.0,1h")
	a, _ := startDHCP(t, `{
		"lan": {"servers": ["192.0.2.1"], "probe": "veth0"}, "other": {"servers": ["192.0.2.1"]},
		"far": {"servers": ["192.0.2.1"], "subnet": "198.51.100.0"}}`)
	a.gives(t, "lan/u1/ipv4", "", "192.0.2.100")
	a.gives(t, "lan/u2/ipv4", "", "192.0.2.102")
	if log := d.log(); !strings.Contains(log, "DHCPDECLINE(veth1) 192.0.2.101") {
		t.Error("192.0.2.101, which the server's machine has, was not declined")
	}
	code, body := a.call(t, "PUT", "lan/u3/ipv4", `, "wanted": "192.0.2.101"`)
	if code != 409 || !strings.Contains(body, "192.0.2.101 is in use") {
		t.Errorf("an address in use: got %d %s, want 409", code, body)
	}
	a.gives(t, "lan/u4/ipv4", inUse("192.0.2.101"), "192.0.2.101") // the machine has it, since the Service does
	a.call(t, "DELETE", "lan/u4/ipv4", "")
	if code, body := a.call(t, "PUT", "other/u1/ipv4", ""); code != 409 {
		t.Errorf("a pool without a range: got %d %s, want 409", code, body)
	}
	a.gives(t, "far/u1/ipv4", "", "198.51.100.10")
	d.has(t, "the end", "192.0.2.100", "192.0.2.102", "198.51.100.10")
	a.call(t, "DELETE", "lan/u1/ipv4", "")
	d.has(t, "a release in a range of one pool", "192.0.2.102", "198.51.100.10")
}
