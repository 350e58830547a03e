package diagnosis

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

const (
	// endsSoon is when a certificate that nothing renews is worth a word, and rotationLate one that the kubelet renews
	// itself, when 70 to 90 % of its time are over.
	endsSoon, rotationLate = 30 * 24 * time.Hour, 3 * 24 * time.Hour
	// fullBytes is no room whatever the kubelet is told, fullPercent the kubelet's own limit (nodefs.available).
	fullBytes, fullPercent, fullInodes = 64 << 20, 10, 5
	// ccmPort is the default port of a cloud-controller-manager.
	ccmPort = 10258
)

func clockOff(h *Host) []finding.Finding {
	if h.Clock == nil {
		return nil
	}
	ahead := time.Duration(h.Clock.Ahead * float64(time.Second))
	if ahead.Abs().Round(time.Second) < clockWarns {
		return nil
	}
	return []finding.Finding{clockFinding(h.machine(), ahead, h.Clock.Server)}
}

func fullDisks(h *Host) []finding.Finding {
	var list []finding.Finding
	seen := map[HostDisk]bool{}
	for _, d := range h.Disks {
		alike := d
		alike.Path = ""
		limit := d.EvictsBelow
		room, inodes := percent(d.FreeBytes, d.Bytes), percent(d.FreeInodes, d.Inodes)
		short := d.FreeBytes < fullBytes || limit > 0 && room < limit || limit > 0 && d.Inodes > 0 && inodes < fullInodes
		if d.Bytes == 0 || seen[alike] || !short {
			continue
		}
		seen[alike] = true // the same file system, by another directory
		f := finding.DiskFull.New(
			h.machine(),
			fmt.Sprintf("%s has %d MiB free (%d %%), %d %% of its inodes", d.Path, d.FreeBytes>>20, room, inodes),
		)
		f.Next = "df -h " + d.Path + "; df -i " + d.Path + "; crictl rmi --prune; journalctl --vacuum-size=200M"
		list = append(list, f)
	}
	return list
}

func percent(part, whole uint64) int {
	if whole == 0 {
		return 100
	}
	return int(part * 100 / whole)
}

func certificates(v *view, h *Host) []finding.Finding {
	var list []finding.Finding
	for _, c := range h.Certificates {
		soon := endsSoon
		if c.Rotated {
			soon = min(rotationLate, c.End.Sub(c.Begin)/10)
		}
		left := c.End.Sub(v.Taken)
		var f finding.Finding
		switch {
		case left <= 0:
			f = finding.CertificateEnded.New(h.machine(), c.File+" ended at "+c.End.UTC().Format(time.RFC3339))
		case c.Begin.After(v.Taken):
			f = finding.CertificateEnded.New(
				h.machine(),
				c.File+" is valid from "+c.Begin.UTC().Format(time.RFC3339)+" on, and by this machine's clock not yet",
			)
			f.Next = "timedatectl"
		case left < soon:
			f = finding.CertificateEnds.New(
				h.machine(),
				fmt.Sprintf("%s ends at %s, in %s", c.File, c.End.UTC().Format(time.RFC3339), finding.Count(int(left.Hours()/24), "day")),
			)
		default:
			continue
		}
		if f.Next == "" {
			f.Next = c.Renew
		}
		list = append(list, f)
	}
	return renewedTogether(list)
}

// renewedTogether has kubeadm renew all where several are its.
func renewedTogether(list []finding.Finding) []finding.Finding {
	const renew = "kubeadm certs renew "
	var own []int
	for i := range list {
		if strings.HasPrefix(list[i].Next, renew) {
			own = append(own, i)
		}
	}
	for _, i := range own {
		if len(own) > 1 {
			list[i].Next = renew + "all, then have the kubelet start its static pods again"
		}
	}
	return list
}

// byCertificate says that only one that has ended explains anything. That the kubelet and the API server refuse each other is
// explained by one of theirs or of their CA; that no API server answers, by its own, a CA's, or one between it and etcd.
func byCertificate(_ *view, f *finding.Finding, explains []finding.ID) []finding.ID {
	if f.ID != finding.CertificateEnded {
		return nil
	}
	rejected := []string{"/kubelet-client-current.pem ", "/apiserver.crt ", "/pki/ca.crt "}
	unreached := []string{"/apiserver.crt ", "/apiserver-etcd-client.crt ", "/etcd/server.crt ", "/etcd/peer.crt ", "/ca.crt "}
	files := map[finding.ID][]string{
		finding.KubeletRejected: rejected, finding.ServerUnreached: unreached, finding.KubeletSilent: slices.Concat(rejected, unreached),
	}
	return slices.DeleteFunc(slices.Clone(explains), func(id finding.ID) bool {
		of, narrow := files[id]
		return narrow && !slices.ContainsFunc(of, func(file string) bool { return strings.Contains(f.Message, file) })
	})
}

func runtimeOf(h *Host) []finding.Finding {
	r := h.Runtime
	switch {
	case r == nil:
		return nil
	case r.Error != "":
		f := finding.RuntimeSilent.New(h.node(), r.Socket+": "+r.Error)
		f.Next = fmt.Sprintf("systemctl status %s; journalctl -u %[1]s --no-pager -n 50", r.unit())
		return []finding.Finding{f}
	case r.Driver == "" || r.KubeletDriver == "" || r.Driver == r.KubeletDriver || r.tellsDriver():
		return nil
	}
	f := finding.CgroupDrivers.New(h.node(), "the kubelet's cgroupDriver is "+r.KubeletDriver+", containerd's "+r.Driver)
	f.Next = "grep SystemdCgroup /etc/containerd/config.toml; grep cgroupDriver /var/lib/kubelet/config.yaml"
	return []finding.Finding{f}
}

// unit is what systemd calls it, by its socket.
func (r *HostRuntime) unit() string {
	switch {
	case strings.Contains(r.Socket, "crio"):
		return "crio"
	case strings.Contains(r.Socket, "dockerd"):
		return "cri-docker"
	}
	return "containerd"
}

// tellsDriver says that the kubelet asks the runtime for its driver, and goes by that: containerd 2 answers.
func (r *HostRuntime) tellsDriver() bool {
	v, err := version.ParseGeneric(r.Version)
	return err == nil && v.Major() >= 2
}

func staticPods(h *Host) []finding.Finding {
	var list []finding.Finding
	owner := map[string]string{}
	kubelet, err := version.ParseGeneric(h.Version)
	strict := err == nil && kubelet.AtLeast(version.MajorMinor(1, 34))
	for _, m := range h.Manifests {
		switch other, twice := owner[m.Pod]; {
		case m.Error != "":
			f := finding.ManifestBroken.New(h.machine(), m.File+": "+m.Error)
			f.Next = "journalctl -u kubelet --no-pager | grep -i manifest"
			list = append(list, f)
		case twice:
			f := finding.ManifestBroken.New(
				h.machine(),
				fmt.Sprintf("%s and %s are both pod %s, and the kubelet takes either", other, m.File, m.Pod),
			)
			f.Do = "move one of them out of the directory"
			list = append(list, f)
		case strict && len(m.Refers) > 0:
			f := finding.ID("A15").
				New(h.machine(), m.File+" references "+join(m.Refers)+", which the kubelet refuses in a static pod")
			list = append(list, f)
		}
		if m.Pod != "" {
			owner[m.Pod] = m.File
		}
	}
	return list
}

// wantedPorts are those of this machine that its static pods want, and managers that run here or would, each with who
// wants it. A manager that systemd runs has its port, and no pod wants it.
func wantedPorts(v *view, h *Host) map[int]string {
	wanted := map[int]string{}
	for i := range v.managers {
		m := &v.managers[i]
		port := ccmPort
		if n, err := strconv.Atoi(m.arg("secure-port")); err == nil {
			port = n
		}
		for _, p := range m.pods {
			if p.Spec.HostNetwork && p.Spec.NodeName == h.Node && port > 0 {
				wanted[port] = p.Namespace + "/" + p.Name
			}
		}
	}
	for _, m := range h.Manifests {
		if len(m.Ports) == 0 && strings.Contains(m.Pod, v1alpha1.Component) {
			wanted[ccmPort] = m.Pod
		}
		for _, port := range m.Ports {
			wanted[port] = m.Pod
		}
	}
	return wanted
}

// takenPorts finds programs outside of pods on the ports of pods.
func takenPorts(v *view, h *Host) []finding.Finding {
	wanted := wantedPorts(v, h)
	var list []finding.Finding
	for _, p := range h.Ports {
		who, is := wanted[p.Port]
		if !is || p.PID == 0 || p.InPod {
			continue
		}
		id := finding.PortTaken
		if p.Port == ccmPort || strings.Contains(who, "cloud-controller-manager") {
			id = "B10"
		}
		f := id.New(
			h.machine(),
			fmt.Sprintf("%s (process %d), which is no pod, listens on port %d of %s", p.Program, p.PID, p.Port, who),
		)
		f.Next = fmt.Sprintf("systemctl status %d", p.PID)
		list = append(list, f)
	}
	return list
}

func resolver(h *Host) []finding.Finding {
	r := h.Resolver
	if r == nil {
		return nil
	}
	seen := ""
	switch {
	case r.Missing:
		seen = "the kubelet's resolvConf " + r.File + " does not exist: the kubelet starts no pod"
	case len(r.Servers) == 0:
		seen = r.File + " names no server"
	default:
		for _, s := range r.Servers {
			if addr, err := netip.ParseAddr(s); err == nil && addr.IsLoopback() {
				seen = r.File + " names " + s + ", which in a pod is the pod itself"
			}
		}
	}
	if seen == "" {
		return nil
	}
	f := finding.NoResolver.New(h.machine(), seen)
	f.Next = "grep resolvConf /var/lib/kubelet/config.yaml; ls -l /etc/resolv.conf /run/systemd/resolve/resolv.conf"
	return []finding.Finding{f}
}

// unansweredService is what kube-proxy on a machine makes of the API server's Service, with the pod that is to be restarted.
func unansweredService(h *Host) []finding.Finding {
	s := h.Service
	if s == nil || s.Error == "" {
		return nil
	}
	seen := "Service/default/kubernetes does not answer at " + s.Address + ": " + s.Error
	var next string
	switch {
	case s.Proxy == "":
		seen += "; no pod of kube-proxy is on this Node"
		next = "kubectl -n kube-system get pods -o wide --field-selector spec.nodeName=" + h.Node
	case s.ProxyState != "":
		seen += "; kube-proxy does not run: " + s.ProxyState
		next = "kubectl -n kube-system logs --previous " + s.Proxy
	default:
		next = "kubectl -n kube-system delete pod " + s.Proxy
	}
	f := finding.ServiceUnanswered.New(h.node(), seen)
	f.Next = next
	return []finding.Finding{f}
}

// losses is about a machine that sends many of its TCP segments again. Some are lost on any network, a peer that is away costs few, and what goes
// through the loopback interface is among what is sent.
func losses(s *Snapshot) []finding.Finding {
	h := s.Host
	const fewest, share = 20, 20
	if h == nil || h.Segments == nil || h.Segments.Again < fewest || h.Segments.Again < h.Segments.Sent/share {
		return nil
	}
	f := finding.PacketsLost.New(h.machine(), fmt.Sprintf("%d of %d TCP segments were sent again within %.1f s",
		h.Segments.Again, h.Segments.Sent, h.Segments.Seconds))
	f.Next = "ip -s link; nft list ruleset; tc qdisc"
	return []finding.Finding{f}
}

// unreachedServer is about the way from this machine to the API server of its kubelet.
func unreachedServer(snapshot *Snapshot) []finding.Finding {
	h := snapshot.Host
	if h == nil || h.Server == nil {
		return nil
	}
	s := h.Server
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
	seen = s.Address + ": " + seen + " (" + s.Error + ")"
	if s.Own > 0 {
		seen += fmt.Sprintf("; this machine's own API server answers on port %d", s.Own)
	}
	for _, m := range h.Manifests {
		if _, name, _ := strings.Cut(m.Pod, "/"); m.Says != "" {
			seen += "; " + name + " logs: " + m.Says
		}
	}
	f := finding.ServerUnreached.New(h.node(), seen+h.logged())
	f.Next = next
	return []finding.Finding{f}
}

// formerCertificates is about components that were not started again after their certificates had been renewed.
func formerCertificates(h *Host) []finding.Finding {
	var seen, next []string
	for _, c := range h.Certificates {
		if c.Former == "" {
			continue
		}
		seen = append(seen, c.Former+" was started before "+c.File+" was renewed")
		next = append(next, "crictl stop $(crictl ps -q --name '^"+c.Former+"$')")
	}
	if len(seen) == 0 {
		return nil
	}
	f := finding.CertificateFormer.New(h.machine(), strings.Join(seen, ", and "))
	f.Next = strings.Join(next, "; ")
	return []finding.Finding{f}
}
