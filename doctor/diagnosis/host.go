package diagnosis

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/doctor/probe"
)

// The parts of a machine, as NotSeen names them.
const (
	HostKubeletPart   = "this machine's kubelet"
	HostFlagsPart     = "this machine's kubelet flags"
	HostPortsPart     = "this machine's ports"
	HostManifestsPart = "this machine's static pods"
	HostCertsPart     = "this machine's certificates"
	HostClockPart     = "this machine's clock, beside the API server's"
	HostResolverPart  = "this machine's resolver"
	HostRuntimePart   = "this machine's container runtime"
	HostDisksPart     = "this machine's disks"
	HostLogsPart      = "this machine's logs of static pods"
	HostNodePart      = "this machine's Node"
	HostServicePart   = "this machine's way to the API server's Service"
	HostSegmentsPart  = "TCP segments of this machine"
)

// Host is what was seen of the machine on which the doctor runs. A part that was not seen is empty, and in NotSeen.
type Host struct {
	// Name is the machine's, Node that of its Node as the kubelet chooses it.
	Name string `json:"name"`
	Node string `json:"node"`
	// Ours says that ccmadm has set this machine up for external cloud mode.
	Ours bool `json:"ours,omitempty"`
	// Addresses are those of its interfaces.
	Addresses []string `json:"addresses,omitempty"`
	// ProviderID is that of the kubelet's configuration.
	ProviderID string `json:"providerID,omitempty"`
	// Version is the kubelet's, as v1.36.3.
	Version      string            `json:"version,omitempty"`
	Unit         *HostUnit         `json:"unit,omitempty"`
	Flags        []HostFlag        `json:"flags,omitempty"`
	Ports        []HostPort        `json:"ports,omitempty"`
	Manifests    []HostManifest    `json:"manifests,omitempty"`
	Certificates []HostCertificate `json:"certificates,omitempty"`
	Clock        *HostClock        `json:"clock,omitempty"`
	Resolver     *HostResolver     `json:"resolver,omitempty"`
	Runtime      *HostRuntime      `json:"runtime,omitempty"`
	Registered   *HostNode         `json:"registered,omitempty"`
	Disks        []HostDisk        `json:"disks,omitempty"`
	Service      *HostService      `json:"service,omitempty"`
	// Segments were sent while the doctor looked.
	Segments *Segments `json:"segments,omitempty"`
	// ForwardingOff says that net.ipv4.ip_forward is 0.
	ForwardingOff bool `json:"forwardingOff,omitempty"`
	// Forwarding6Off says that net.ipv6.conf.all.forwarding is 0.
	Forwarding6Off bool `json:"forwarding6Off,omitempty"`
	// BridgeUnseen says that pods are at bridge cni0, and that kube-proxy's rules of IPv4 do not see packets between them, Bridge6Unseen that
	// those of IPv6 do not.
	BridgeUnseen  bool             `json:"bridgeUnseen,omitempty"`
	Bridge6Unseen bool             `json:"bridge6Unseen,omitempty"`
	Connections   *HostConnections `json:"connections,omitempty"`
	// Server is the kubelet's API server, where it did not answer.
	Server *HostServer `json:"server,omitempty"`
}

// HostConnections are those that the kernel tracks, and how many it may.
type HostConnections struct {
	Tracked uint64 `json:"tracked"`
	Most    uint64 `json:"most"`
}

// HostServer is an API server that does not answer this machine.
type HostServer struct {
	// Address is HOST:PORT.
	Address string      `json:"address"`
	Kind    Unreachable `json:"kind"`
	Error   string      `json:"error"`
	// Own is the port on which this machine's own API server answers, where the address is not this machine's.
	Own int `json:"own,omitempty"`
}

// Unreachable says how a server does not answer.
type Unreachable = probe.Unreachable

// The ways.
const (
	NameUnknown  = probe.NameUnknown
	Refused      = probe.Refused
	Dropped      = probe.Dropped
	NoRoute      = probe.NoRoute
	OtherProgram = probe.OtherProgram
)

// HostUnit is the kubelet's unit, by systemd.
type HostUnit struct {
	Load   string `json:"load"`
	Active string `json:"active"`
	Sub    string `json:"sub"`
	// File reports whether it is enabled.
	File string `json:"file,omitempty"`
	// PID is 0 where it does not run.
	PID      int `json:"pid,omitempty"`
	Restarts int `json:"restarts,omitempty"`
	// Stale says that systemd has not read the unit's files since they changed.
	Stale bool `json:"stale,omitempty"`
	// Complaint is the last error in the kubelet's log; of one that runs, of the last minutes.
	Complaint string `json:"complaint,omitempty"`
}

// Segments are the TCP segments that a machine has sent in some seconds, and those of them that it has sent again.
type Segments struct {
	Sent    uint64  `json:"sent"`
	Again   uint64  `json:"again"`
	Seconds float64 `json:"seconds"`
}

// HostFlag is one flag of the kubelet.
type HostFlag struct {
	Name string `json:"name"`
	// Places are where files set it, the one that wins last.
	Places []HostPlace `json:"places,omitempty"`
	// Runs says that the process has the flag, Value with what.
	Runs  bool   `json:"runs"`
	Value string `json:"value,omitempty"`
}

// HostPlace is a line of a file.
type HostPlace struct {
	File  string `json:"file"`
	Line  int    `json:"line,omitempty"`
	Value string `json:"value"`
}

// HostPort is one on which a process listens. PID is 0 where the process is not known.
type HostPort struct {
	Port    int    `json:"port"`
	Program string `json:"program,omitempty"`
	PID     int    `json:"pid,omitempty"`
	// InPod says that it is a pod's.
	InPod bool `json:"inPod,omitempty"`
}

// HostManifest is a file in the kubelet's directory of static pods.
type HostManifest struct {
	File string `json:"file"`
	// Pod is namespace/name; empty where the file cannot be read, and Error says why.
	Pod   string `json:"pod,omitempty"`
	Error string `json:"error,omitempty"`
	// Says is the last error in its log, where no API server answers that could show it.
	Says string `json:"says,omitempty"`
	// Refers are the objects of the API that it refers to.
	Refers []string `json:"refers,omitempty"`
	// Ports are those of the machine that it wants, by its arguments and probes.
	Ports []int `json:"ports,omitempty"`
}

// HostCertificate is the end of a client's or a server's.
type HostCertificate struct {
	File  string    `json:"file"`
	Begin time.Time `json:"begin"`
	End   time.Time `json:"end"`
	// Renew is the command that renews it.
	Renew string `json:"renew,omitempty"`
	// Rotated says that the kubelet renews it by itself.
	Rotated bool `json:"rotated,omitempty"`
	// Former is the component that was started before the certificate was renewed, and has the former one.
	Former string `json:"former,omitempty"`
}

// HostClock compares clocks: Ahead is by how much this machine's is before the server's, in seconds.
type HostClock struct {
	Server string  `json:"server"`
	Ahead  float64 `json:"ahead"`
}

// HostResolver is the file that pods get their name servers from.
type HostResolver struct {
	File    string   `json:"file"`
	Missing bool     `json:"missing,omitempty"`
	Servers []string `json:"servers,omitempty"`
}

// HostRuntime is what the kubelet starts containers with.
type HostRuntime struct {
	Socket string `json:"socket"`
	// Error says why it does not answer.
	Error   string `json:"error,omitempty"`
	Version string `json:"version,omitempty"`
	// Driver and KubeletDriver are the cgroup drivers, systemd or cgroupfs; empty where it is not known.
	Driver        string `json:"driver,omitempty"`
	KubeletDriver string `json:"kubeletDriver,omitempty"`
}

// HostNode is what the API server tells the kubelet of its own Node.
type HostNode struct {
	Name    string `json:"name"`
	Missing bool   `json:"missing,omitempty"`
	Ready   bool   `json:"ready,omitempty"`
	// PodCIDRs are the networks of its pods.
	PodCIDRs []string `json:"podCIDRs,omitempty"`
	// Twin is another machine that writes the Node's status, in turn with this one.
	Twin string `json:"twin,omitempty"`
	// ThisBoot says that the Node's status shows this machine's boot.
	ThisBoot bool `json:"thisBoot,omitempty"`
	// Foreign is the machine whose Node it is, where this one has a copy of its kubelet.conf and another name.
	Foreign string `json:"foreign,omitempty"`
	// Rejected is how the API server has refused the kubelet, or the kubelet its certificate, and Next the command after which they do not.
	Rejected string `json:"rejected,omitempty"`
	Next     string `json:"next,omitempty"`
}

// HostService is the API server at the address of its Service, as this machine reaches it.
type HostService struct {
	Address string `json:"address"`
	// Error is what came in place of an answer, several times, while the API server's own address answered.
	Error string `json:"error,omitempty"`
	// Proxy is the pod of kube-proxy on this Node; empty: there is none. ProxyState is why it does not run.
	Proxy      string `json:"proxy,omitempty"`
	ProxyState string `json:"proxyState,omitempty"`
}

// HostDisk is the file system below a directory.
type HostDisk struct {
	Path        string `json:"path"`
	Bytes       uint64 `json:"bytes"`
	FreeBytes   uint64 `json:"freeBytes"`
	Inodes      uint64 `json:"inodes"`
	FreeInodes  uint64 `json:"freeInodes"`
	EvictsBelow int    `json:"evictsBelow,omitempty"` // percent of FreeBytes, by the kubelet's configuration
}

func (h *Host) node() string { return "Node/" + finding.Clean(h.Node) }

func (h *Host) machine() string { return "Machine/" + finding.Clean(h.Name) }

// forwarding is about the kernel's settings without which no packet of a pod leaves the machine.
func forwarding(s *Snapshot) []finding.Finding {
	h := s.Host
	if h == nil {
		return nil
	}
	var off []string
	if h.ForwardingOff && hasIPv4(s) {
		off = append(off, "net.ipv4.ip_forward")
	}
	if h.Forwarding6Off && h.Registered != nil && slices.ContainsFunc(h.Registered.PodCIDRs, isIPv6) {
		off = append(off, "net.ipv6.conf.all.forwarding")
	}
	if len(off) == 0 {
		return nil
	}
	f := finding.ForwardingOff.New(h.machine(), strings.Join(off, " and ")+" is 0")
	f.Next = "sysctl -w " + strings.Join(off, "=1 ") + "=1"
	return []finding.Finding{f}
}

// hasIPv4 tells whether packets of pods may be of IPv4.
func hasIPv4(s *Snapshot) bool {
	h := s.Host
	if len(h.Addresses) > 0 && !slices.ContainsFunc(h.Addresses, isIPv4) {
		return false
	}
	at := slices.IndexFunc(s.Nodes, func(n corev1.Node) bool { return n.Name == h.Node })
	return at < 0 || len(s.Nodes[at].Status.Addresses) == 0 || slices.ContainsFunc(nodestatus.InternalIPs(&s.Nodes[at]), netip.Addr.Is4)
}

func isIPv6(cidr string) bool { return strings.Contains(cidr, ":") }

// isIPv4 tells whether an address is one that others may reach.
func isIPv4(text string) bool {
	a, err := netip.ParseAddr(text)
	return err == nil && a.Is4() && !a.IsLoopback() && !a.IsLinkLocalUnicast()
}

// tracking is about a table of connections that has no more room.
func tracking(h *Host) []finding.Finding {
	c := h.Connections
	if c == nil || c.Tracked < c.Most-c.Most/20 {
		return nil
	}
	f := finding.ConnectionsFull.New(h.machine(), fmt.Sprintf("%d of %d connections are tracked", c.Tracked, c.Most))
	f.Next = fmt.Sprintf("sysctl -w net.netfilter.nf_conntrack_max=%d; conntrack -S", 2*c.Most)
	return []finding.Finding{f}
}

// bridge is about pods of one Node that a bridge connects: without the setting, the answer of one to the other does
// not pass kube-proxy's rules. Where another program does the work of kube-proxy, nothing is known of its rules.
func bridge(s *Snapshot) []finding.Finding {
	h := s.Host
	if h == nil || h.Service != nil && h.Service.Proxy == "" && h.Service.Error == "" {
		return nil
	}
	ipv4, ipv6 := hasIPv4(s), false
	if h.Registered != nil && len(h.Registered.PodCIDRs) > 0 {
		ipv6 = slices.ContainsFunc(h.Registered.PodCIDRs, isIPv6)
		ipv4 = slices.ContainsFunc(h.Registered.PodCIDRs, func(cidr string) bool { return !isIPv6(cidr) })
	}
	var unseen []string
	if h.BridgeUnseen && ipv4 {
		unseen = append(unseen, "net.bridge.bridge-nf-call-iptables")
	}
	if h.Bridge6Unseen && ipv6 {
		unseen = append(unseen, "net.bridge.bridge-nf-call-ip6tables")
	}
	if len(unseen) == 0 {
		return nil
	}
	f := finding.BridgeUnseen.New(h.machine(), "pods are at bridge cni0, and "+strings.Join(unseen, " and ")+" is not 1")
	f.Next = "modprobe br_netfilter && sysctl -w " + strings.Join(unseen, "=1 ") + "=1"
	return []finding.Finding{f}
}
