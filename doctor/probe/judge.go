package probe

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
)

// Findings are what does not answer a Node, and Nodes whose machine is set up so that pods cannot work. What could not be asked is
// none of them.
func (f *Facts) Findings() []finding.Finding {
	var list []finding.Finding
	list = append(list, f.forwarding()...)
	kubelets, ofAll := f.kubeletsOfAll()
	list = append(list, kubelets...)
	list = append(list, f.unanswered(ofAll)...)
	return append(list, f.links()...)
}

// Of are the findings of an ID.
func (f *Facts) Of(ids ...finding.ID) []finding.Finding {
	return slices.DeleteFunc(f.Findings(), func(found finding.Finding) bool { return !slices.Contains(ids, found.ID) })
}

// source is a place of a Node from which something was asked; nil where it was not.
func (f *Facts) source(node string, from Place) *Source {
	i := slices.IndexFunc(f.Sources, func(s Source) bool { return s.Node == node && s.From == from && s.Unasked == "" })
	if i < 0 {
		return nil
	}
	return &f.Sources[i]
}

// failure is that of a target from a place; nil where it answered, or was not asked.
func (s *Source) failure(target int) *Failure {
	if s == nil {
		return nil
	}
	i := slices.IndexFunc(s.Answer.Failed, func(f Failure) bool { return f.Target == target })
	if i < 0 {
		return nil
	}
	return &s.Answer.Failed[i]
}

func (s *Source) asked(target int) bool { return s != nil && slices.Contains(s.Asked, target) }

// nodes are those from which something was asked, each once in the order of the sources.
func (f *Facts) nodes() []string {
	var list []string
	for _, s := range f.Sources {
		if s.Unasked == "" && !slices.Contains(list, s.Node) {
			list = append(list, s.Node)
		}
	}
	return list
}

// forwardingOff reports whether a machine forwards no packets, in a cluster that has IPv4.
func (f *Facts) forwardingOff(node string) bool {
	s := f.source(node, Machine)
	return s != nil && s.Answer.Forwarding == "0" && slices.ContainsFunc(f.Targets, func(t Target) bool {
		addr, err := netip.ParseAddrPort(t.Address)
		return err == nil && addr.Addr().Is4()
	})
}

// forwarding finds Nodes that forward no packets. What their pods therefore do not reach stands there.
func (f *Facts) forwarding() []finding.Finding {
	var list []finding.Finding
	for _, node := range f.nodes() {
		if !f.forwardingOff(node) {
			continue
		}
		seen := "net.ipv4.ip_forward is 0"
		if s := f.source(node, Pod); s != nil {
			seen += fmt.Sprintf("; of %d that a pod there asked %d did not answer", s.Answer.Asked, len(s.Answer.Failed)+s.Answer.Cut)
		}
		found := finding.NodeForwardingOff.New("Node/"+finding.Clean(node), seen)
		found.Next = "on " + finding.Clean(node) + ": sysctl -w net.ipv4.ip_forward=1; grep -r ip_forward /etc/sysctl.conf /etc/sysctl.d"
		list = append(list, found)
	}
	return list
}

// unreached returns how many Nodes asked for a kubelet from their machines, and the first failure, where none of two or more reaches
// it: it is not the fault of these then. Else it returns nil.
func (f *Facts) unreached(target int) (askers int, first *Failure) {
	for i := range f.Sources {
		s := &f.Sources[i]
		if s.From != Machine || s.Unasked != "" || !s.asked(target) {
			continue
		}
		failed := s.failure(target)
		if failed == nil {
			return 0, nil
		}
		askers, first = askers+1, cmp.Or(first, failed)
	}
	if askers < 2 {
		return 0, nil
	}
	return askers, first
}

// kubeletsOfAll finds kubelets that no Node reaches, and returns their targets, too.
func (f *Facts) kubeletsOfAll() ([]finding.Finding, map[int]bool) {
	var list []finding.Finding
	targets := map[int]bool{}
	for i := range f.Targets {
		t := &f.Targets[i]
		if t.Subject != Kubelet || len(f.Only) > 0 && !slices.Contains(f.Only, strings.TrimPrefix(t.Object, "Node/")) {
			continue // of a Node that was not named nothing is to be found
		}
		askers, first := f.unreached(i)
		if first == nil {
			continue
		}
		targets[i] = true
		found := finding.KubeletUnreached.New(t.Object, fmt.Sprintf("none of %s that asked reaches its kubelet at %s: %s",
			finding.Count(askers, "Node"), t.Address, first.text()))
		found.Next = "on " + strings.TrimPrefix(t.Object, "Node/") + ": systemctl status kubelet; ss -ltn sport = :" + port(t.Address) +
			"; nft list ruleset"
		list = append(list, found)
	}
	return list, targets
}

// unanswered finds what does not answer a Node, but for some targets: one finding for each Node and ID, since a diagnosis has one of
// an object.
func (f *Facts) unanswered(but map[int]bool) []finding.Finding {
	var list []finding.Finding
	for _, node := range f.nodes() {
		machine, pod, off := f.source(node, Machine), f.source(node, Pod), f.forwardingOff(node)
		at, more := map[finding.ID]int{}, map[finding.ID][]string{}
		for i := range f.Targets {
			t := &f.Targets[i]
			inMachine, inPod := machine.failure(i), pod.failure(i)
			if inPod != nil && inMachine == nil && machine.asked(i) && off {
				inPod = nil // it stands at the setting
			}
			if inMachine == nil && inPod == nil || but[i] {
				continue
			}
			if _, known := at[t.id()]; known {
				more[t.id()] = append(more[t.id()], t.name())
				continue
			}
			found := t.id().New("Node/"+finding.Clean(node), t.name()+", asked from "+whence(machine, pod, i, inMachine, inPod)+
				": "+cmp.Or(inMachine, inPod).text())
			found.Next = t.next(finding.Clean(node), inMachine != nil, cmp.Or(inMachine, inPod).Kind)
			at[t.id()] = len(list)
			list = append(list, found)
		}
		for id, names := range more {
			list[at[id]].Message += "; without an answer, too: " + some(names)
		}
	}
	return list
}

// some are the first names of a list, and how many more there are.
func some(names []string) string {
	if more := len(names) - mostNames; more > 0 {
		return strings.Join(names[:mostNames], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}

// whence says from where a target did not answer, and where it did.
func whence(machine, pod *Source, target int, inMachine, inPod *Failure) string {
	switch {
	case inMachine != nil && inPod != nil:
		return "the machine and from a pod"
	case inMachine != nil && pod.asked(target):
		return "the machine, and not from a pod"
	case inMachine != nil:
		return "the machine"
	case machine.asked(target):
		return "a pod, and not from the machine"
	}
	return "a pod"
}

// text is what came in place of an answer.
func (f *Failure) text() string {
	text := map[Unreachable]string{
		NameUnknown: "the name is not known", Refused: "the connection is refused", Dropped: "there is no answer",
		NameUnresolved: "the name servers of the machine do not say whether the name is known",
		NoRoute:        "there is no way to it, or a rule of this machine forbids it", NameServerFails: "DNS answers that it cannot answer",
		BadCertificate: "TLS fails: the certificate is not of the cluster's CA, or of another name or time",
	}[f.Kind]
	if text = cmp.Or(text, "what answers closes the connection, or speaks another protocol"); f.Error != "" {
		text += " (" + finding.Clean(f.Error) + ")"
	}
	switch f.Ping {
	case "yes":
		text += "; its address answers ping"
	case "no":
		text += "; its address does not answer ping"
	}
	return text
}

func (t *Target) id() finding.ID {
	return map[Subject]finding.ID{
		Service: finding.NodeServiceUnanswered, Endpoint: finding.NodeServerUnreached, Server: finding.NodeServerUnreached,
		DNSUDP: finding.NodeDNSUnanswered, DNSTCP: finding.NodeDNSUnanswered, Kubelet: finding.KubeletUnreached,
		Balancer: finding.NodeBalancerUnreached,
	}[t.Subject]
}

// name is what was asked.
func (t *Target) name() string {
	switch t.Subject {
	case Endpoint:
		return "control plane's endpoint " + t.Address
	case Server:
		return "API server's own address " + t.Address
	case DNSUDP:
		return t.Object + " at " + t.Address + " by UDP for " + strings.TrimSuffix(t.Name, ".")
	case DNSTCP:
		return t.Object + " at " + t.Address + " by TCP for " + strings.TrimSuffix(t.Name, ".")
	case Kubelet:
		return "kubelet of " + t.Object + " at " + t.Address
	case Service, Balancer:
	}
	return t.Object + " at " + t.Address
}

// next is the command to go on with, on a Node.
func (t *Target) next(node string, machine bool, kind Unreachable) string {
	host, _, err := net.SplitHostPort(t.Address)
	if err != nil {
		host = t.Address
	}
	route := "ip route get " + host
	if strings.Contains(host, ":") {
		route = "ip -6 route get " + host
	}
	on := "on " + node + ": "
	switch {
	case kind == BadCertificate:
		return on + "openssl s_client -connect " + t.Address + " </dev/null | openssl x509 -noout -issuer -dates -ext subjectAltName"
	case t.Subject == Kubelet:
		return on + route + "; nft list ruleset"
	case (kind == NameUnknown || kind == NameUnresolved) && t.Subject == Endpoint:
		return on + "getent hosts " + host + "; cat /etc/resolv.conf"
	case t.Subject == Endpoint, t.Subject == Server:
		return on + route + "; nft list ruleset; curl -k https://" + t.Address + "/version"
	case kind == NameUnknown, kind == NameServerFails:
		return "kubectl -n kube-system logs -l k8s-app=kube-dns"
	case !machine: // kube-proxy's rules are there for the machine
		return on + "nft list ruleset; ip route; kubectl get pods -A -o wide --field-selector spec.nodeName=" + node
	}
	return "kubectl -n kube-system get pods -o wide -l k8s-app=kube-proxy --field-selector spec.nodeName=" + node + "; " + on +
		"nft list ruleset"
}

func port(address string) string { return address[strings.LastIndex(address, ":")+1:] }

// links finds Nodes whose default link takes smaller packets than that of most, and pods whose packets are larger than those of any link.
func (f *Facts) links() []finding.Finding {
	count := map[int]int{}
	for _, node := range f.nodes() {
		if s := f.source(node, Machine); s != nil && s.Answer.MTU > 0 {
			count[s.Answer.MTU]++
		}
	}
	most := 0
	for _, mtu := range slices.Sorted(maps.Keys(count)) { // of as many the larger
		if count[mtu] >= count[most] {
			most = mtu
		}
	}
	var list []finding.Finding
	for _, node := range f.nodes() {
		machine, pod := f.source(node, Machine), f.source(node, Pod)
		if machine == nil || machine.Answer.MTU == 0 {
			continue
		}
		object, link, mtu := "Node/"+finding.Clean(node), finding.Clean(machine.Answer.Link), machine.Answer.MTU
		if mtu != most {
			found := finding.LinkMTU.New(object, fmt.Sprintf("its default link %s has MTU %d, and that of %s has %d", link, mtu,
				finding.Count(count[most], "other Node"), most))
			found.Next = "on " + finding.Clean(node) + ": ip link show " + link
			list = append(list, found)
		}
		if pod != nil && pod.Answer.MTU > max(mtu, machine.Answer.Largest) {
			found := finding.PodMTU.New(object,
				fmt.Sprintf("pods there have MTU %d, and its default link %s has %d", pod.Answer.MTU, link, mtu))
			found.Next = "on " + finding.Clean(node) + ": ip link show " + link + "; cat /etc/cni/net.d/*.conf*"
			list = append(list, found)
		}
	}
	return list
}
