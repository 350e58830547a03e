package host

import (
	"testing"

	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
)

// TestSegments: what is counted before and behind the look, in the words of the kernel.
func TestSegments(t *testing.T) {
	const names = "Ip: Forwarding DefaultTTL\nIp: 1 64\nTcp: RtoAlgorithm MaxConn OutSegs RetransSegs InErrs\n"
	m := &machine.Machine{Root: t.TempDir(), Now: machine.New().Now}
	h := &looking{Machine: m, seen: &diagnosis.Host{}}
	if _, err := h.count(); err == nil {
		t.Error("there is no file, and it was counted")
	}
	machinetest.Put(t, m, "/proc/net/snmp", names+"Tcp: 1 -1 1000 20 0\n")
	before, err := h.count()
	if err != nil {
		t.Fatal(err)
	}
	machinetest.Put(t, m, "/proc/net/snmp", names+"Tcp: 1 -1 1200 80 0\nUdp: NoPorts\nUdp: 1\n")
	if err := h.losses(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	if s := h.seen.Segments; s == nil || s.Sent != 200 || s.Again != 60 || s.Seconds < 0.9 {
		t.Errorf("counted %+v", s)
	}
	for _, wrong := range []string{"", "Tcp: a b\n", names, names + "Tcp: 1 -1 x y 0\n", names + "Tcp: 1\n"} {
		machinetest.Put(t, m, "/proc/net/snmp", wrong)
		if s, err := h.count(); err == nil {
			t.Errorf("%q was counted: %+v", wrong, s)
		}
	}
}

// The machine of this test is a real one, and its kernel counts.
func TestSegments_Kernel(t *testing.T) {
	h := &looking{Machine: machine.New(), seen: &diagnosis.Host{}}
	if s, err := h.count(); err != nil || s.sent == 0 {
		t.Errorf("counted %+v, error %v", s, err)
	}
}
