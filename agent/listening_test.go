package agent

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Lines of the kernel's, of a little-endian machine.
func TestListening(t *testing.T) {
	const head = "  sl  local_address rem_address   st tx_queue rx_queue\n"
	proc := t.TempDir()
	for name, text := range map[string]string{
		"thread-self/net/tcp": head +
			"   0: 00000000:0016 00000000:0000 0A 0\n" + // ssh, everywhere
			"   1: 0100007F:1F90 00000000:0000 0A 0\n" + // on 127.0.0.1
			"   2: 0B0212C6:0050 00000000:0000 0A 0\n" + // on 198.18.2.11
			"   3: 0B0212C6:9C40 0C0212C6:0016 01 0\n", // connected
		"thread-self/net/tcp6": head +
			"   0: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A 0\n" +
			"   1: 00000000000000000000000001000000:2378 00000000000000000000000000000000:0000 0A 0\n" + // on ::1
			"   2: 0000000000000000FFFF00000100007F:2379 00000000000000000000000000000000:0000 0A 0\n", // on ::ffff:127.0.0.1
		"thread-self/net/udp": head +
			"   0: 00000000:0035 00000000:0000 07 0\n" +
			"   1: 00000000:8765 00000000:0000 07 0\n" + // a client's
			"   2: 0B0212C6:0044 0C0212C6:0043 01 0\n" + // connected
			"broken\n",
		"sys/net/ipv4/ip_local_port_range": "32768\t60999\n",
	} {
		path := filepath.Join(proc, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := listening(proc)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"tcp/22", "tcp/80", "udp/53"}, got); diff != "" {
		t.Error(diff)
	}
	if _, err := listening(t.TempDir()); err == nil {
		t.Error("without /proc nothing listens")
	}
}

// A media server opens and closes thousands of ports: the report stays the same, and has few entries.
func TestListening_ManyPorts(t *testing.T) {
	proc := t.TempDir()
	if err := os.MkdirAll(filepath.Join(proc, "thread-self/net"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(proc, "sys/net/ipv4"), 0o755); err != nil {
		t.Fatal(err)
	}
	report := func(every int) []string {
		var udp strings.Builder
		for _, port := range []int{53, 500} {
			fmt.Fprintf(&udp, "   0: 00000000:%04X 00000000:0000 07 0\n", port)
		}
		for port := 16384; port < 32768; port += every {
			fmt.Fprintf(&udp, "   0: 00000000:%04X 00000000:0000 07 0\n", port)
		}
		for name, text := range map[string]string{
			"thread-self/net/tcp": "   0: 00000000:1F90 00000000:0000 0A 0\n", "thread-self/net/udp": udp.String(),
			"sys/net/ipv4/ip_local_port_range": "32768\t60999\n",
		} {
			if err := os.WriteFile(filepath.Join(proc, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		list, err := listening(proc)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	first := report(2)
	if diff := cmp.Diff(first, report(3)); diff != "" {
		t.Error(diff)
	}
	if len(first) != 3+16 || // 8080 is alone in its block
		first[0] != "tcp/8080" || !slices.Contains(first, "udp/16384-17407") || !slices.Contains(first, "udp/53") {
		t.Errorf("the report has %d entries: %q", len(first), first)
	}
}

// A test that has locked the first thread of the process into a network of its own leaves it there for good.
func TestListening_OwnNetwork(t *testing.T) {
	ownNamespace(t)
	l := listen(t, "0.0.0.0:0")
	got, err := listening("/proc")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{fmt.Sprintf("tcp/%d", l.Addr().(*net.TCPAddr).Port)}, got); diff != "" {
		t.Error(diff)
	}
}
