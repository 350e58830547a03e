//go:build linux

package bgp

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

// A Node is a network namespace, as a router is: that of the test itself, into which it starts again, or of a process.
//
//	router: br0 10.9.0.1 fd09::1, BIRD       node N: eth0 10.9.0.1N fd09::1N, Speaker
const (
	insideVariable  = "CCMADM_TEST_INSIDE"
	speakerVariable = "CCMADM_TEST_SPEAKER"
)

// birdRouter is a namespace with BIRD in it.
type birdRouter struct {
	dir string
	pid int       // of a process in its namespace
	cmd *exec.Cmd // BIRD
	net *netlink.Handle
}

// inNamespace starts the test again in a network namespace of its own, and returns whether it runs there.
func inNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideVariable) == t.Name() {
		return true
	}
	manifeststest.NeedRoot(t)
	if _, err := manifeststest.Bird("bird"); err != nil {
		t.Fatal(err)
	}
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=15m")
	cmd.Env = append(os.Environ(), insideVariable+"="+t.Name())
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: unix.SIGKILL}
	out, err := cmd.CombinedOutput()
	t.Log(string(out))
	if err != nil {
		t.Fatal(err)
	}
	return false
}

// newRouter makes a router whose configuration begins with its own addresses, and has Node 1, that of the test, wired.
func newRouter(t *testing.T, config string) *birdRouter {
	t.Helper()
	r := newNamespace(t)
	preamble := "router id 10.9.0.1;\nprotocol device {}\nprotocol direct { ipv4; ipv6; }\n" +
		"protocol kernel { ipv4 { export where source = RTS_BGP; }; merge paths on; }\n" +
		"protocol kernel { ipv6 { export where source = RTS_BGP; }; merge paths on; }\n"
	noError(t, os.WriteFile(filepath.Join(r.dir, "bird.conf"), []byte(preamble+config), 0o600))
	r.begin(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(r.birdc("show protocols all"), r.birdc("show route all"))
		}
	})
	return r
}

// newNamespace is that of a router without a program.
func newNamespace(t *testing.T) *birdRouter {
	t.Helper()
	r := &birdRouter{dir: t.TempDir()}
	holder := exec.Command("sleep", "infinity")
	holder.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	start(t, holder)
	r.pid = holder.Process.Pid
	r.net = namespaceOf(t, r.pid)
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
	noError(t, r.net.LinkAdd(bridge))
	up(t, r.net, "br0", "10.9.0.1/24", "10.9.0.2/24", "fd09::1/64")
	up(t, r.net, "lo")
	r.wire(t, 1, os.Getpid())
	return r
}

// begin starts BIRD.
func (r *birdRouter) begin(t *testing.T) {
	t.Helper()
	bird, err := manifeststest.Bird("bird")
	noError(t, err)
	args := append([]string{fmt.Sprintf("--net=/proc/%d/ns/net", r.pid)}, bird...)
	r.cmd = exec.Command("nsenter", append(args, "-f",
		"-c", filepath.Join(r.dir, "bird.conf"), "-s", filepath.Join(r.dir, "ctl"), "-P", filepath.Join(r.dir, "pid"))...)
	start(t, r.cmd)
	eventually(t, 5*time.Second, "BIRD answers", func() bool { return strings.Contains(r.birdc("show status"), "Daemon is up") })
}

// wire connects Node n, the namespace of a process, to the router.
func (r *birdRouter) wire(t *testing.T, n, pid int) {
	t.Helper()
	port := fmt.Sprintf("port%d", n)
	own, err := netlink.NewHandle()
	noError(t, err)
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("node%d", n)}, PeerName: port}
	noError(t, own.LinkAdd(veth))
	far, err := own.LinkByName(port)
	noError(t, err)
	noError(t, own.LinkSetNsPid(far, r.pid))
	node := own
	if pid != os.Getpid() {
		near, err := own.LinkByName(veth.Name)
		noError(t, err)
		noError(t, own.LinkSetNsPid(near, pid))
		node = namespaceOf(t, pid)
	}
	bridge, err := r.net.LinkByName("br0")
	noError(t, err)
	far, err = r.net.LinkByName(port)
	noError(t, err)
	noError(t, r.net.LinkSetMaster(far, bridge))
	noError(t, r.net.LinkSetUp(far))
	up(t, node, "lo")
	up(t, node, veth.Name, fmt.Sprintf("10.9.0.1%d/24", n), fmt.Sprintf("fd09::1%d/64", n))
}

// birdc is what BIRD answers, or why it does not.
func (r *birdRouter) birdc(command string) string {
	birdc, err := manifeststest.Bird("birdc")
	if err != nil {
		return err.Error()
	}
	args := append(birdc[1:], append([]string{"-s", filepath.Join(r.dir, "ctl")}, strings.Fields(command)...)...)
	out, err := exec.Command(birdc[0], args...).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s%v", out, err)
	}
	return string(out)
}

// unwire takes away the link of a Node in the namespace of the test.
func unwire(t *testing.T, name string) {
	t.Helper()
	link, err := netlink.LinkByName(name)
	noError(t, err)
	noError(t, netlink.LinkDel(link))
}

// nextHops are those that the router's kernel has for a prefix.
func (r *birdRouter) nextHops(t *testing.T, prefix string) []string {
	t.Helper()
	_, dst, err := net.ParseCIDR(prefix)
	noError(t, err)
	family := unix.AF_INET6
	if netip.MustParsePrefix(prefix).Addr().Is4() {
		family = unix.AF_INET
	}
	routes, err := r.net.RouteListFiltered(family, &netlink.Route{Dst: dst}, netlink.RT_FILTER_DST)
	noError(t, err)
	var hops []string
	for _, route := range routes {
		if route.Gw != nil {
			hops = append(hops, route.Gw.String())
		}
		for _, hop := range route.MultiPath {
			hops = append(hops, hop.Gw.String())
		}
	}
	slices.Sort(hops)
	return hops
}

func namespaceOf(t *testing.T, pid int) *netlink.Handle {
	t.Helper()
	ns, err := netns.GetFromPid(pid)
	noError(t, err)
	t.Cleanup(func() { _ = ns.Close() })
	handle, err := netlink.NewHandleAt(ns)
	noError(t, err)
	t.Cleanup(handle.Close)
	return handle
}

func up(t *testing.T, h *netlink.Handle, name string, addresses ...string) {
	t.Helper()
	link, err := h.LinkByName(name)
	noError(t, err)
	for _, a := range addresses {
		address, err := netlink.ParseAddr(a)
		noError(t, err)
		address.Flags = unix.IFA_F_NODAD
		noError(t, h.AddrAdd(link, address))
	}
	noError(t, h.LinkSetUp(link))
}

func eventually(t *testing.T, limit time.Duration, what string, happened func() bool) time.Duration {
	t.Helper()
	started := time.Now()
	limit *= slower
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for ; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		if happened() {
			return time.Since(started)
		}
	}
	t.Fatalf("not within %s: %s", limit, what)
	return 0
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
