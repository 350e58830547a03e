package vip

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// hearElsewhere gives each machine a second interface for heartbeats, and ends the programs.
func hearElsewhere(t *testing.T, machines map[string]*cp) {
	t.Helper()
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br-hears"}}
	must(t, netlink.LinkAdd(bridge))
	must(t, netlink.LinkSetUp(bridge))
	for _, m := range machines {
		kill(m.vip)
		m.hears = "198.51.100."
		plug(t, bridge, "h-"+m.name, fmt.Sprintf("%s%d/24", m.hears, m.host), &m.ns)
	}
}

// readyz is what the program says there, from within its namespace. It is healthy all the time.
func (c *cp) readyz(t *testing.T) (code int, text string) {
	t.Helper()
	if code, text := c.asks(t, "/healthz"); code != http.StatusOK {
		t.Errorf("%s is restarted: /healthz says %d %q", c.name, code, text)
	}
	return c.asks(t, "/readyz")
}

func (c *cp) asks(t *testing.T, path string) (code int, text string) {
	t.Helper()
	before, err := netns.Get()
	must(t, err)
	must(t, netns.Set(c.ns))
	conn, err := net.Dial("tcp", "127.0.0.1:10394")
	for began := time.Now(); errors.Is(err, unix.ECONNREFUSED) && time.Since(began) < time.Minute; { // it has just been started
		time.Sleep(20 * time.Millisecond)
		conn, err = net.Dial("tcp", "127.0.0.1:10394")
	}
	must(t, netns.Set(before))
	must(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	must(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(t, err)
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, strings.TrimSpace(string(body))
}

// The owner's interface loses its carrier while the others hear it by another one: another takes the address. With no
// carrier anywhere nobody answers, and the first that has it again does.
func TestVIP_InterfaceWithoutCarrier(t *testing.T) {
	machines, client := apart(t, 3)
	hearElsewhere(t, machines)
	for _, m := range machines {
		m.startVIP(t, 3)
	}
	owner := machines[client.wait(t, machines, 20*time.Second, "")]
	begin := time.Now()
	owner.down(t)
	next := machines[client.wait(t, machines, 10*time.Second, owner.mac)]
	took := client.found.Sub(begin)
	t.Logf("no carrier: %s has it after %s", next.name, took.Round(time.Millisecond))
	if took > 10*time.Second { // it hears the others all the time, and would keep the address for ever
		t.Errorf("no carrier: taken after %s", took)
	}
	if code, text := owner.readyz(t); code != http.StatusServiceUnavailable || !strings.Contains(text, owner.ifi) {
		t.Errorf("/readyz of the one without carrier says %d %q", code, text)
	}
	owner.up(t)
	eventually(t, time.Minute, "/readyz of the one with its carrier back says ok", func() bool {
		code, text := owner.readyz(t)
		return code == http.StatusOK && text == "ok"
	})
	if mac := client.wait(t, machines, 2*time.Second, ""); mac != next.mac {
		t.Errorf("%s has the address, want the one that had it", machines[mac].name)
	}
	for _, m := range machines {
		m.down(t)
	}
	time.Sleep(2 * time.Second)
	begin = time.Now()
	owner.up(t)
	mac := client.wait(t, machines, 10*time.Second, "")
	if took := client.found.Sub(begin); mac != owner.mac || took > 10*time.Second {
		t.Errorf("%s answers after %s, want the only one with a carrier", machines[mac].name, took)
	}
	if client.double > 0 {
		t.Errorf("two answered at the same time, %d times", client.double)
	}
}

// A machine whose interface has another name, as after a change of hardware, never has the address while another can.
func TestVIP_InterfaceOfAnotherName(t *testing.T) {
	machines, client := apart(t, 3)
	for _, bad := range machines {
		for _, m := range machines {
			kill(m.vip)
			m.ifi = m.name
		}
		bad.ifi = "gone0"
		bad.startVIP(t, 3)
		for _, m := range machines {
			if m != bad {
				m.startVIP(t, 3)
			}
		}
		owner := machines[client.wait(t, machines, 5*time.Second, "")]
		if code, text := bad.readyz(t); code != http.StatusServiceUnavailable || !strings.Contains(text, "gone0") {
			t.Errorf("/readyz of %s says %d %q", bad.name, code, text)
		}
		kill(owner.api)
		next := machines[client.wait(t, machines, 5*time.Second, owner.mac)]
		t.Logf("%s has no interface: %s, then %s", bad.name, owner.name, next.name)
		owner.startAPI(t)
	}
}
