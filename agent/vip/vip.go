// Package vip holds the control plane's own address on a machine whose API server answers.
//
// Start at [Run]. By L2 one machine answers for the address while a majority of the control planes grants it: holder.go has
// what is told to provider/announce, members.go and votes.go who has a vote, segment.go whether the machine could answer,
// health.go whether its API server does. By BGP, in bgp.go, each machine decides alone. loopback.go puts the address on lo.
// state.go says who has it and why, and watch.go is the agent that asks for it.
//
// Reads: the API server's /livez and /readyz; Nodes and pods of control planes; the file of members; a secret of the control
// planes. Writes: the address on lo; the file of members; ARP, NDP, heartbeats or BGP.
// Running it twice: the second one on a machine cannot listen for heartbeats, or at its address for metrics, and says so.
package vip

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/agent/metrics"
	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/provider/announce"
	"github.com/ccmadm/ccmadm/provider/announce/l2"
	"github.com/ccmadm/ccmadm/provider/changes"
)

// MetricsAddress is where the static pod says what it knows, unless it is told otherwise, and where the agent of the machine
// asks for it.
const MetricsAddress = "127.0.0.1:10394"

// drainTime is how long a SIGTERM waits for others to take the address.
const drainTime = 2 * time.Second

// Options are what the program is told.
type Options struct {
	NodeName string
	// NodeAddress is where the other control planes hear this one.
	NodeAddress netip.Addr
	// Address is the one that is held.
	Address       netip.Addr
	APIServerPort int
	// CAFile has the CA of the API server.
	CAFile string
	// MetricsAddress is where /healthz, /readyz and /metrics are served; empty: nowhere.
	MetricsAddress string
	// BGP are routers to which the address is announced; nil: one machine answers ARP or NDP for it, and all that follows is
	// for that.
	BGP *config.ControlPlaneVIPBGP

	// Interface is where the address is answered for.
	Interface string
	// MembersFile has the control planes that are known. It is kept up to date.
	MembersFile string
	// SecretFile is one that control planes have and no other, for the key of heartbeats.
	SecretFile string
	// Kubeconfig is for this machine's API server, to list control planes.
	Kubeconfig string
	// HeartbeatPort is the port of UDP on which control planes hear each other.
	HeartbeatPort uint16
}

// Run holds the address until ctx is done, and then hands it over.
func Run(ctx context.Context, o Options) error {
	if o.BGP != nil {
		return runByBGP(ctx, o)
	}
	return runByL2(ctx, o)
}

// runByL2 answers ARP or NDP for the address, where a majority grants it.
func runByL2(ctx context.Context, o Options) error {
	h, err := newHolder(o)
	if err != nil {
		return err
	}
	key, err := heartbeatKey(o.SecretFile)
	if err != nil {
		return err
	}
	health, err := newHealth(o.CAFile, o.APIServerPort)
	if err != nil {
		return err
	}
	changed, poke := changes.New()
	announcer := l2.New(l2.Options{
		Node: o.NodeName, Key: key, Port: o.HeartbeatPort, Changed: poke, Log: klog.Background(),
	})
	h.set, h.owns, h.answerable = announcer.Set, announcer.Owns, announcer.Answerable
	h.votes, h.owner = announcer.Votes, announcer.OwnerOf
	registerMetrics(h.report)
	working, stop := context.WithCancel(context.WithoutCancel(ctx)) // it hands over before it ends
	defer stop()
	group, working := errgroup.WithContext(working)
	ctx, end := context.WithCancel(ctx) // what fails ends the rest: the kubelet starts it again
	defer context.AfterFunc(working, end)()
	server := metrics.Server{Address: o.MetricsAddress, Ready: h.state, Paths: answer(h.report)}
	group.Go(func() error { return server.Serve(working) })
	group.Go(func() error { return announcer.Run(working) })
	group.Go(func() error { return h.follow(ctx, o.Kubeconfig) })
	group.Go(func() error { h.watchSegment(ctx); return nil })
	group.Go(func() error { changes.Follow(working, working, changed, h.moved); return nil })
	group.Go(func() error { keepOnLoopback(ctx, h.moved); return nil })
	group.Go(func() error { watchVotes(ctx, h.report); return nil })
	group.Go(func() error {
		defer stop()
		health.watch(ctx, h.hold)
		drained, cancel := context.WithTimeout(working, drainTime)
		defer cancel()
		announcer.Drain(drained)
		return h.release()
	})
	return group.Wait()
}

// heartbeatKey is derived from a file that all control planes have: there is no Secret before there is a cluster.
func heartbeatKey(path string) ([]byte, error) {
	secret, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read --secret-file: %w", err)
	}
	if len(secret) < sha256.Size {
		return nil, fmt.Errorf("read --secret-file: %s has only %d bytes", path, len(secret))
	}
	return hkdf.Key(sha256.New, secret, nil, "ccmadm.dev control plane address heartbeats", sha256.Size)
}

// newHolder starts with the control planes of the file, and with nothing on lo.
func newHolder(o Options) (*holder, error) {
	members, err := readMembers(o.MembersFile)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(members, func(m member) bool { return m.Name == o.NodeName })
	if i < 0 {
		return nil, errors.New("read --members-file: this Node is not in it")
	}
	members[i].Address, members[i].Silent = o.NodeAddress, false
	h := &holder{
		self: o.NodeName, address: o.Address, ifi: o.Interface, file: o.MembersFile, members: members, now: time.Now, seen: announce.Sightings{},
		cut: errors.New("the network interfaces have not been read yet"),
	}
	return h, removeFromLoopback(o.Address) // what a process that was killed has left there
}
