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

	"github.com/go-logr/logr"

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

// An agent that starts hears a thousand others for the first time. Each sends twice in an interval: a heartbeat and an answer.
func TestSources_ThousandAgents(t *testing.T) {
	var s sources
	now, left := time.Now(), 0
	const agents, datagrams, intervals = 1000, 2, 20
	for range intervals * datagrams {
		for i := range agents {
			now = now.Add(quorum.HeartbeatInterval / agents / datagrams)
			if !s.verify(netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}), v1alpha1.HeartbeatPort), 300, now) {
				left++
			}
		}
	}
	if left > 0 {
		t.Errorf("%d datagrams of new agents were not verified", left)
	}
	for range strangersAtOnce {
		if !s.verify(netip.MustParseAddrPort("203.0.113.9:10391"), quorum.MaxDatagram, now) {
			left++
		}
	}
	if most := strangersAtOnce * strangerSize / quorum.MaxDatagram; strangersAtOnce-left > most {
		t.Errorf("%d datagrams of %d bytes are verified at once, want %d at most", strangersAtOnce-left, quorum.MaxDatagram, most)
	}
}

// What could not be verified is not said to have a wrong signature.
func TestL2_CountsOfRefused(t *testing.T) {
	h, l2, now := &heartbeats{key: bytes.Repeat([]byte{7}, 32)}, New(Options{Log: logr.Discard()}), time.Now()
	var s sources
	for range strangersAtOnce + 3 {
		h.handle(&s, []byte("forged"), netip.MustParseAddrPort("203.0.113.9:10391"), now, l2.take, l2.refused)
	}
	if c := l2.Counts(); c.Forged != strangersAtOnce || c.Unverified != 3 {
		t.Errorf("%d datagrams have a wrong signature, and %d are not verified, want %d and 3", c.Forged, c.Unverified, strangersAtOnce)
	}
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
			if s.verify(from, len(datagram), now) {
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
