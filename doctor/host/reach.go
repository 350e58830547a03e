package host

import (
	"context"
	"errors"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
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
	h.seen.Server = &diagnosis.HostServer{Address: net.JoinHostPort(host, port), Error: finding.Clean(err.Error()), Kind: kindOf(err)}
}

// kindOf tells apart what a person repairs in different places.
func kindOf(err error) diagnosis.Unreachable {
	switch {
	case errors.As(err, new(*net.DNSError)):
		return diagnosis.NameUnknown
	case errors.Is(err, syscall.ECONNREFUSED):
		return diagnosis.Refused
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.EPERM):
		return diagnosis.NoRoute
	}
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return diagnosis.Dropped
	}
	return diagnosis.OtherProgram
}
