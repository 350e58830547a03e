package l2

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce/quorum"
)

// A machine that sends forged datagrams as fast as it can keeps few heartbeats from those who are known.
func TestHeartbeats_Flood(t *testing.T) {
	l := newLAN(t)
	here, agent, hostile := l.plug("here", 1), l.plug("agent", 2), l.plug("hostile", 3)
	key, port := bytes.Repeat([]byte{7}, 32), uint16(v1alpha1.HeartbeatPort)
	address := netip.MustParseAddr("10.8.0.1")
	var receiver, sender *heartbeats
	l.at(here, func() (err error) { receiver, err = listen(t.Context(), key, netip.Addr{}, port); return err })
	l.at(agent, func() (err error) { sender, err = listen(t.Context(), key, netip.Addr{}, port); return err })
	var received, refused, sent atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		take := func(*quorum.Datagram, netip.Addr) bool { received.Add(1); return true }
		receiver.receive(take, func(netip.AddrPort, error) { refused.Add(1) })
	}()
	waitFor(t, 5*time.Second, func() bool { // its interface takes a moment
		_ = sender.send(&quorum.Datagram{From: "agent", To: "here", Version: 4}, address)
		return received.Load() > 10
	})
	ctx, stop := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	for range 2 {
		var conn net.Conn
		l.at(hostile, func() (err error) {
			conn, err = net.Dial("udp", netip.AddrPortFrom(address, port).String())
			return err
		})
		flood.Go(func() {
			forged := (&quorum.Datagram{From: "agent", To: "here", Version: 4}).Encode([]byte("another key"))
			for ctx.Err() == nil {
				for range 100 {
					_, _ = conn.Write(forged)
				}
				sent.Add(100)
			}
			_ = conn.Close()
		})
	}
	time.Sleep(300 * time.Millisecond)
	const heartbeats = 300
	before, began := received.Load(), time.Now()
	forged := sent.Load()
	for range heartbeats {
		_ = sender.send(&quorum.Datagram{From: "agent", To: "here", Version: 4}, address)
		time.Sleep(quorum.HeartbeatInterval / 10)
	}
	forged, took := sent.Load()-forged, time.Since(began)
	stop()
	flood.Wait()
	time.Sleep(300 * time.Millisecond) // what is in the queue
	lost := heartbeats - (received.Load() - before)
	t.Logf("%d forged datagrams a second: %d of %d heartbeats were lost", int(float64(forged)/took.Seconds()), lost, heartbeats)
	if lost > heartbeats/10 && !raceDetector { // with it a signature takes ten times as long
		t.Errorf("%d of %d heartbeats were lost", lost, heartbeats)
	}
	if refused.Load() == 0 {
		t.Error("nothing was refused: this shows nothing")
	}
	_, _ = sender.conn.Close(), receiver.conn.Close()
	<-ended
}

// Datagrams that come from no known agent are verified as long as they are few, and those of known agents always. One that was recorded, and is
// sent again from everywhere, makes no source known, and no agent forgotten.
func TestSources_Verify(t *testing.T) {
	h, now := &heartbeats{key: bytes.Repeat([]byte{7}, 32), port: 10391}, time.Now()
	var s sources
	known, stranger := netip.MustParseAddrPort("192.0.2.1:10391"), netip.MustParseAddrPort("10.244.0.9:10391")
	pod := netip.MustParseAddrPort("192.0.2.1:4000") // with the address of its Node
	datagram := (&quorum.Datagram{From: "agent", To: "here", Version: 4}).Encode(h.key)
	arrives := func(from netip.AddrPort, fresh bool) {
		h.handle(&s, datagram, from, now, func(*quorum.Datagram, netip.Addr) bool { return fresh }, func(netip.AddrPort, error) {})
	}
	of := func(from netip.AddrPort, n int) (verified int) {
		for range n {
			if s.verify(from, now) {
				verified++
			}
		}
		return verified
	}
	arrives(known, true)
	arrives(pod, true)
	for port := range maxSources + strangersAtOnce {
		now = now.Add(quorum.HeartbeatInterval / strangersAtOnce)
		arrives(netip.AddrPortFrom(stranger.Addr(), uint16(port)), false)
	}
	arrives(stranger, false)
	now = now.Add(2 * quorum.HeartbeatInterval)
	if got := of(stranger, strangersAtOnce) + of(pod, strangersAtOnce); got != strangersAtOnce {
		t.Errorf("%d datagrams of strangers are verified at once, want %d", got, strangersAtOnce)
	}
	if got := of(known, 2*strangersAtOnce); got != 2*strangersAtOnce {
		t.Errorf("in a flood %d datagrams of a known agent are verified, want all %d", got, 2*strangersAtOnce)
	}
	now = now.Add(2 * quorum.HeartbeatInterval)
	if of(stranger, 1) != 1 {
		t.Error("after the flood nothing is verified that comes from no known agent")
	}
	verified := 0 // of a new agent's heartbeats, before each of which strangers use up what is verified
	for range 200 {
		of(stranger, strangersAtOnce)
		now = now.Add(quorum.HeartbeatInterval / 2)
		verified += of(pod, 1)
		now = now.Add(quorum.HeartbeatInterval / 2)
	}
	if verified == 0 {
		t.Error("a new agent's heartbeats, half an interval after the flood's, are never verified")
	}
}
