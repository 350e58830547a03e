package host

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ccmadm/ccmadm/doctor/diagnosis"
)

// kernel reads the settings of the kernel by which packets of pods are lost. A file that is not there says nothing: without IPv4, without
// IPv6 or without connection tracking it is not. Only without module br_netfilter it is that packets within a bridge are not seen.
func (h *looking) kernel() {
	setting := func(path string) string {
		data, _ := h.Read("/proc/sys/net/" + path)
		return strings.TrimSpace(string(data))
	}
	h.seen.ForwardingOff = setting("ipv4/ip_forward") == "0"
	h.seen.Forwarding6Off = setting("ipv6/conf/all/forwarding") == "0"
	pods, _ := filepath.Glob(h.Path("/sys/class/net/cni0/brif/*")) // the pattern is well-formed, the only error there is
	h.seen.BridgeUnseen = len(pods) > 0 && setting("bridge/bridge-nf-call-iptables") != "1"
	h.seen.Bridge6Unseen = len(pods) > 0 && setting("bridge/bridge-nf-call-ip6tables") != "1"
	tracked, err := strconv.ParseUint(setting("netfilter/nf_conntrack_count"), 10, 64)
	most, more := strconv.ParseUint(setting("netfilter/nf_conntrack_max"), 10, 64)
	if err == nil && more == nil && most > 0 {
		h.seen.Connections = &diagnosis.HostConnections{Tracked: tracked, Most: most}
	}
}
