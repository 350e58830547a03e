package host

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/doctor/probe"
)

// reachTime is for the question whether the API server that did not answer once does not answer at all.
const reachTime = 5 * time.Second

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
