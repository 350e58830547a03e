//go:build linux

package bgp

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/osrg/gobgp/v4/api"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// bfdConfig is the router's side of a session with BFD.
func bfdConfig(interval time.Duration) string {
	bfd := fmt.Sprintf("interface \"br0\" { interval %d ms; multiplier 3; };", interval.Milliseconds())
	return "protocol bfd { " + bfd + " }\n" +
		strings.Replace(node1, "hold time", "error wait time 1, 2; bfd on; hold time", 1)
}

func bfdRouter(interval time.Duration) Router {
	r := routerAt("tor1", "10.9.0.1")
	on := true
	r.BFD = v1alpha1.PeerBFD{Enabled: &on, Interval: metav1.Duration{Duration: interval}, Multiplier: 3}
	return r
}

// bfdLab is a router, and a speaker with which it has a session with BFD, and a path.
func bfdLab(t *testing.T, interval time.Duration) (*birdRouter, *exec.Cmd) {
	t.Helper()
	r := newRouter(t, bfdConfig(interval))
	o := order{Addresses: nodeAddresses("1"), Routers: []Router{bfdRouter(interval)}, Paths: paths(vip4)}
	speaker, _ := speakerProcess(t, o, 0)
	eventually(t, 10*time.Second, "BFD is up, and the path there", func() bool { return r.hasBFD(t) })
	return r, speaker
}

// hasBFD is whether the router has a session with BFD, and a path.
func (r *birdRouter) hasBFD(t *testing.T) bool {
	t.Helper()
	return len(r.nextHops(t, vip4)) == 1 && strings.Contains(r.birdc("show bfd sessions"), " Up ")
}

// TestSpeaker_BFDAgain ends a session with BFD in the ways in which routers do. Each time the next session must stay,
// and in the end BFD must find a dead Node.
func TestSpeaker_BFDAgain(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	r, speaker := bfdLab(t, 300*time.Millisecond) // a busy machine is late for less
	gone := func() bool { return len(r.nextHops(t, vip4)) == 0 }
	for _, tt := range []struct {
		name   string
		happen func()
	}{
		{"the router ends the session", func() { r.birdc("restart node1") }},
		{"the router starts its BFD again", func() { r.birdc("restart bfd1") }},
		{"the router is started again", func() {
			noError(t, r.cmd.Process.Kill())
			r.begin(t)
		}},
		{"the Node is late", func() {
			noError(t, speaker.Process.Signal(syscall.SIGSTOP))
			time.Sleep(2 * time.Second)
			noError(t, speaker.Process.Signal(syscall.SIGCONT))
		}},
	} {
		tt.happen()
		eventually(t, 10*time.Second, tt.name+": the path is gone", gone)
		back := func() bool { return r.hasBFD(t) }
		took := eventually(t, 20*time.Second, tt.name+": BFD and the path are back", back)
		t.Logf("%s: back after %s", tt.name, took)
		for range 30 { // a session that would end does so in two seconds
			time.Sleep(100 * time.Millisecond)
			if gone() {
				t.Fatalf("%s: the path is gone again: %s", tt.name, r.birdc("show protocols all node1"))
			}
		}
	}
	noError(t, speaker.Process.Signal(syscall.SIGSTOP))
	if took := eventually(t, 3*time.Second, "the path is gone", gone); took > min(1500*time.Millisecond*slower, byHoldTime) {
		t.Errorf("BFD took %s", took)
	}
}

// TestSpeaker_BFDPause: while a session waits to be made anew its cause is told, and it may be removed.
func TestSpeaker_BFDPause(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	r := newRouter(t, bfdConfig(300*time.Millisecond))
	s, err := NewSpeaker(t.Context(), testr.New(t), nodeAddresses("1"), func() {})
	noError(t, err)
	t.Cleanup(func() { noError(t, s.Close(t.Context())) })
	established := func() bool { return sessionOf(t, s, "tor1").State == stateEstablished }
	s.SetRouters(t.Context(), []Router{bfdRouter(300 * time.Millisecond)})
	eventually(t, 10*time.Second, "the session", established)
	r.birdc("restart node1")
	eventually(t, renewPause, "the cause is told", func() bool {
		return strings.HasPrefix(sessionOf(t, s, "tor1").Message, "session ended: ")
	})
	eventually(t, 10*time.Second, "the session again", established)
	r.birdc("restart node1")
	time.Sleep(2 * settleTime)
	s.SetRouters(t.Context(), nil)
	time.Sleep(2 * renewPause)
	noError(t, s.bgp.ListPeer(t.Context(), &api.ListPeerRequest{}, func(p *api.Peer) { t.Errorf("there is %v", p) }))
}
