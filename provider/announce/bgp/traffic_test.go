//go:build linux

package bgp

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

const (
	service      = "192.0.2.50:80"
	connectEvery = 20 * time.Millisecond
	patience     = 900 * time.Millisecond
)

// serveAt is the Node's own forwarding: it does not depend on the speaker.
func serveAt(t *testing.T, address string) {
	t.Helper()
	own, err := netlink.NewHandle()
	noError(t, err)
	up(t, own, "lo", netip.MustParseAddrPort(address).Addr().String()+"/32")
	listener, err := net.Listen("tcp", address)
	noError(t, err)
	for {
		connection, err := listener.Accept()
		noError(t, err)
		_ = connection.Close()
	}
}

// testNode is a Node with its forwarding in one process, and its speaker in another.
type testNode struct {
	order   order
	holder  *exec.Cmd
	speaker *exec.Cmd
	in      io.Writer
}

func newTestNode(t *testing.T, r *birdRouter, n int, router Router) *testNode {
	t.Helper()
	node := &testNode{order: order{Addresses: nodeAddresses(fmt.Sprint(n)), Routers: []Router{router}, Paths: paths(vip4)}}
	node.holder, _ = speakerProcess(t, order{Serve: service}, unix.CLONE_NEWNET)
	r.wire(t, n, node.holder.Process.Pid)
	node.speak(t)
	return node
}

func (n *testNode) speak(t *testing.T) {
	t.Helper()
	in := fmt.Sprintf("--net=/proc/%d/ns/net", n.holder.Process.Pid)
	n.speaker, n.in = speakerProcess(t, n.order, 0, "nsenter", in)
}

// connect tries from the router's namespace for a time, fifty times a second, and returns how many connections there
// were, how many did not come about, and when the last of these began.
func (r *birdRouter) connect(t *testing.T, during time.Duration) (tried, lost int, last time.Duration) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	started := time.Now()
	ticker := time.NewTicker(connectEvery)
	defer ticker.Stop()
	for at := range ticker.C {
		if at.Sub(started) > during {
			break
		}
		tried++
		all.Go(func() {
			if err := r.dial(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				lost, last = lost+1, max(last, at.Sub(started))
			}
		})
	}
	all.Wait()
	return tried, lost, last
}

// dial connects once. The socket is made in the router's namespace, and its thread goes back: processes that it has
// started would end with it.
func (r *birdRouter) dial() error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		own, err := netns.Get()
		if err != nil {
			result <- err
			return
		}
		defer func() { _ = own.Close() }()
		ns, err := netns.GetFromPid(r.pid)
		if err != nil {
			result <- err
			return
		}
		defer func() { _ = ns.Close() }()
		if err := netns.Set(ns); err != nil {
			result <- err
			return
		}
		connection, err := net.DialTimeout("tcp4", service, patience)
		if back := netns.Set(own); back != nil {
			panic(back) // no other goroutine may have this thread
		}
		runtime.UnlockOSThread()
		if err == nil {
			err = connection.Close()
		}
		result <- err
	}()
	return <-result
}

// TestSpeaker_Traffic connects through a router to two Nodes while things happen to one of them.
func TestSpeaker_Traffic(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	for _, tt := range []struct {
		name   string
		bfd    time.Duration // the interval; 0: none
		happen func(t *testing.T, r *birdRouter, n *testNode)
		none   bool          // nothing may be lost
		limit  time.Duration // until nothing is lost
	}{
		{
			name: "agent killed and started again",
			happen: func(t *testing.T, _ *birdRouter, n *testNode) {
				noError(t, n.speaker.Process.Kill())
				n.speak(t)
			},
			none: true,
		},
		{
			name: "Node drained",
			happen: func(t *testing.T, _ *birdRouter, n *testNode) {
				noError(t, json.NewEncoder(n.in).Encode(order{Drain: true}))
			},
			none: true,
		},
		{
			name: "agent killed, with BFD 100ms x 3", bfd: 100 * time.Millisecond,
			happen: func(t *testing.T, _ *birdRouter, n *testNode) {
				noError(t, n.speaker.Process.Kill())
				n.speak(t)
			},
			none: true,
		},
		{name: "power cut, BFD 100ms x 3", bfd: 100 * time.Millisecond, happen: cutPower, limit: time.Second},
		{name: "power cut, BFD 300ms x 3", bfd: 300 * time.Millisecond, happen: cutPower, limit: 2 * time.Second},
		{name: "power cut, hold time 3s", happen: cutPower, limit: 10 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			limit := tt.limit
			if tt.bfd > 0 {
				limit = min(limit*slower, byHoldTime)
			}
			r, nodes := trafficLab(t, tt.bfd)
			go tt.happen(t, r, nodes[1])
			tried, lost, last := r.connect(t, max(3*time.Second, limit))
			t.Logf("%s: lost %d of %d, the last after %s", tt.name, lost, tried, last.Round(time.Millisecond))
			if tt.none && lost > 0 {
				t.Errorf("lost %d connections", lost)
			}
			if !tt.none && (lost == 0 || last > limit) {
				t.Errorf("lost %d connections, the last after %s, which should be some, for %s at most", lost, last, limit)
			}
		})
	}
}

// trafficLab is a router and two Nodes to which it sends connections in turn.
func trafficLab(t *testing.T, bfd time.Duration) (*birdRouter, []*testNode) {
	t.Helper()
	router := routerAt("tor1", "10.9.0.1")
	router.HoldTime = metav1.Duration{Duration: 3 * time.Second}
	config := node1
	if bfd != 0 {
		on := true
		router.BFD = v1alpha1.PeerBFD{Enabled: &on, Interval: metav1.Duration{Duration: bfd}, Multiplier: 3}
		config = strings.Replace(node1, "hold time", "bfd on; hold time", 1)
	}
	var all strings.Builder
	fmt.Fprintf(&all, "protocol bfd { interface \"br0\" { interval %d ms; multiplier 3; }; }\n", max(bfd.Milliseconds(), 10))
	for _, n := range []string{"2", "3"} {
		all.WriteString(strings.NewReplacer("node1", "node"+n, "10.9.0.11", "10.9.0.1"+n).Replace(config))
	}
	r := newRouter(t, all.String())
	t.Cleanup(func() { unwire(t, "node1") })
	hash := exec.Command("nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", r.pid), "sh", "-c",
		"echo 1 > /proc/sys/net/ipv4/fib_multipath_hash_policy")
	if out, err := hash.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	nodes := []*testNode{newTestNode(t, r, 2, router), newTestNode(t, r, 3, router)}
	eventually(t, 15*time.Second, "two next hops, and BFD", func() bool {
		return slices.Equal(r.nextHops(t, vip4), []string{"10.9.0.12", "10.9.0.13"}) &&
			(bfd == 0 || strings.Count(r.birdc("show bfd sessions"), " Up ") == 2)
	})
	return r, nodes
}

// cutPower takes the cable, and then the machine.
func cutPower(t *testing.T, r *birdRouter, n *testNode) {
	link, err := r.net.LinkByName("port3")
	noError(t, err)
	noError(t, r.net.LinkSetDown(link))
	_ = n.speaker.Process.Signal(syscall.SIGKILL)
	_ = n.holder.Process.Signal(syscall.SIGKILL)
}
