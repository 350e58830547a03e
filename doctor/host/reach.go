package host

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/components"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/doctor/probe"
)

const (
	// reachTime is for the question whether the API server that did not answer once does not answer at all.
	reachTime = 5 * time.Second
	// readyAttempts are of attemptTimeout each.
	readyAttempts = 2
)

// reach notes why the kubelet's API server does not answer. It has a time limit of its own, since a server that drops
// packets has used up that of the first question.
func (h *looking) reach(request *http.Request) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(request.Context()), reachTime)
	defer cancel()
	host, port := request.URL.Hostname(), request.URL.Port()
	if port == "" {
		port = "443"
	}
	err := h.answers(ctx, net.JoinHostPort(host, port))
	if err == nil {
		return // one slow answer is no finding
	}
	h.seen.Server = &diagnosis.HostServer{Address: net.JoinHostPort(host, port), Error: finding.Clean(err.Error()), Kind: probe.KindOf(err)}
}

// ownServer is the port on which this machine's own API server is ready, where the kubelet asks another address, such as that of a load
// balancer; else 0.
func (h *looking) ownServer(ctx context.Context) int {
	host, _, _ := net.SplitHostPort(h.seen.Server.Address)
	if addr, err := netip.ParseAddr(host); err == nil && (addr.IsLoopback() || slices.Contains(h.seen.Addresses, addr.String())) {
		return 0
	}
	for _, m := range h.seen.Manifests {
		if _, name, _ := strings.Cut(m.Pod, "/"); name != components.APIServer {
			continue
		}
		wants := m.Ports
		if len(wants) == 0 {
			wants = []int{6443}
		}
		for _, p := range h.seen.Ports {
			if slices.Contains(wants, p.Port) && (p.PID == 0 || p.Program == components.APIServer) && h.ready(ctx, h.serves, p.Port) {
				return p.Port
			}
		}
	}
	return 0
}

// ready tells whether an API server of this machine does its work. One that lets nobody ask without credentials may, and one that is busy
// may answer late once.
func (h *looking) ready(ctx context.Context, host string, port int) bool {
	for range readyAttempts {
		status, err := h.status(ctx, net.JoinHostPort(host, strconv.Itoa(port)), "/readyz")
		if err == nil {
			return status == http.StatusOK || status == http.StatusUnauthorized || status == http.StatusForbidden
		}
	}
	return false
}
