package diagnosis

import (
	"net"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
)

// forwarding is about the kernel's setting without which no packet of a pod leaves the machine.
func forwarding(_ *view, h *Host) []finding.Finding {
	if !h.ForwardingOff {
		return nil
	}
	f := finding.ForwardingOff.New(h.machine(), "net.ipv4.ip_forward is 0")
	f.Next = "sysctl -w net.ipv4.ip_forward=1"
	return []finding.Finding{f}
}

// unreachedServer is about the way from this machine to the API server of its kubelet.
func unreachedServer(_ *view, h *Host) []finding.Finding {
	s := h.Server
	if s == nil {
		return nil
	}
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		host = s.Address
	}
	var seen, next string
	switch s.Kind {
	case NameUnknown:
		seen, next = "the name does not resolve here", "getent hosts "+host+"; cat /etc/resolv.conf"
	case Refused:
		seen = "the connection is refused: no program listens there, or a firewall rejects it"
		next = "on a control plane: crictl ps -a --name kube-apiserver; on this machine: nft list ruleset"
	case Dropped:
		seen = "there is no answer: a firewall drops packets, or the machine is off"
		next = "ip route get " + host + "; nft list ruleset; ip neigh; on a control plane: ss -ltn sport = :" + port
	case NoRoute:
		seen, next = "there is no way to it, or a rule of this machine forbids it", "ip route get "+host+"; ip -brief address; nft list ruleset"
	default:
		seen, next = "what answers is not an API server", "on that machine: ss -ltnp sport = :"+port
	}
	if strings.Contains(host, ":") {
		next = strings.Replace(next, "ip route get", "ip -6 route get", 1)
	}
	f := finding.ServerUnreached.New(h.node(), s.Address+": "+seen+" ("+s.Error+")")
	f.Next = next
	return []finding.Finding{f}
}
