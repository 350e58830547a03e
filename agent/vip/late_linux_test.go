package vip

import (
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// API servers and agents that are late for a moment, one or all of them, as on a machine with too much to do: soon after
// it the address is there, and at no time with two.
func TestVIP_LateForAMoment(t *testing.T) {
	for n := 1; n <= 3; n++ {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			machines, client := apart(t, n)
			client.wait(t, machines, 20*time.Second, "")
			for range 4 {
				for _, m := range machines {
					if rand.N(n) == 0 {
						m.beLate(t)
					}
				}
				time.Sleep(rand.N(2 * time.Second))
				for _, m := range machines {
					m.beInTime(t)
				}
				client.wait(t, machines, 5*time.Second, "")
			}
			if client.double > 0 {
				t.Errorf("two answered at the same time, %d times", client.double)
			}
		})
	}
}

// beLate lets the API server answer with errors, or nothing runs at all, or the agent does not.
func (c *cp) beLate(t *testing.T) {
	t.Helper()
	switch rand.N(3) {
	case 0:
		must(t, os.WriteFile(c.late(), nil, 0o600))
		t.Logf("%s: its API server answers with errors", c.name)
	case 1:
		must(t, c.api.Process.Signal(syscall.SIGSTOP))
		t.Logf("%s: its API server does not run", c.name)
	case 2:
		must(t, c.api.Process.Signal(syscall.SIGSTOP))
		must(t, c.vip.Process.Signal(syscall.SIGSTOP))
		t.Logf("%s: nothing runs", c.name)
	}
}

func (c *cp) beInTime(t *testing.T) {
	t.Helper()
	must(t, os.RemoveAll(c.late()))
	must(t, c.api.Process.Signal(syscall.SIGCONT))
	must(t, c.vip.Process.Signal(syscall.SIGCONT))
}

// The only control plane keeps the address while its API server answers with errors.
func TestVIP_TheOnlyOneKeepsIt(t *testing.T) {
	machines, client := apart(t, 1)
	client.wait(t, machines, 20*time.Second, "")
	for _, m := range machines {
		must(t, os.WriteFile(m.late(), nil, 0o600))
		time.Sleep(2 * time.Second)
		client.wait(t, machines, 200*time.Millisecond, "")
		if !onLoopback(t, m) {
			t.Error("nobody else could have the address, and it is not on lo")
		}
	}
}

// A control plane joins while the owner's API server is away: the owner has not learned of it, and hands over even so.
func TestVIP_JoinsWhileTheOwnersAPIServerIsAway(t *testing.T) {
	machines, client := apart(t, 2)
	list := slices.SortedFunc(maps.Values(machines), func(a, b *cp) int { return a.host - b.host })
	owner, other := list[0], list[1]
	for _, m := range list {
		kill(m.vip)
	}
	owner.startVIP(t, 1)
	if mac := client.wait(t, machines, 20*time.Second, ""); mac != owner.mac {
		t.Fatalf("%s has the address, want the one that is alone", machines[mac].name)
	}
	other.startVIP(t, 2)
	time.Sleep(2 * time.Second)
	if mac := client.wait(t, machines, time.Second, ""); mac != owner.mac {
		t.Fatalf("%s has the address, want the one that had it", machines[mac].name)
	}
	begin := time.Now()
	kill(owner.api)
	client.wait(t, machines, 5*time.Second, owner.mac)
	t.Logf("%s has it after %s", other.name, client.found.Sub(begin).Round(time.Millisecond))
	if client.double > 0 {
		t.Errorf("two answered at the same time, %d times", client.double)
	}
}

// A machine whose kernel refuses the address is no candidate. The next answer of its API server makes it one.
func TestVIP_KernelRefusesForAMoment(t *testing.T) {
	ownNamespace(t)
	switchIPv6 := func(off string) {
		must(t, os.WriteFile("/proc/sys/net/ipv6/conf/lo/disable_ipv6", []byte(off), 0))
	}
	switchIPv6("1")
	h, told := holderOf(t, "a")
	h.address = addr("fd00::10")
	if err := h.hold(true); err == nil || len(told.Claims) > 0 {
		t.Fatalf("%v: the kernel has no IPv6, and the announcer was told %+v", err, told)
	}
	switchIPv6("0")
	if err := h.hold(true); err != nil || told.Draining || len(told.Claims) != 1 {
		t.Errorf("%v: the announcer was told %+v", err, told)
	}
}
