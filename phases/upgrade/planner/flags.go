package planner

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/minors"
)

// gone is an argument that a component refuses, or passes over, of which upstream's own flags do not tell: it is still
// there and takes one value alone, or went before the oldest minor that ccmadm knows.
type gone struct {
	component Component
	name      string
	// since is the minor version that has it no more.
	since uint
	id    finding.ID
	// but is a value that is not refused.
	but string
}

// goneFlags are those of which clusters in external mode are known to have some left over.
func goneFlags() []gone {
	return []gone{
		{component: APIServer, name: "cloud-provider", since: 33, id: "A6"},
		{component: APIServer, name: "cloud-config", since: 33, id: "A6"},
		{component: ControllerManager, name: "cloud-provider", since: 31, id: "A7", but: "external"},
		{component: ControllerManager, name: "cidr-allocator-type", since: 31, id: "A7", but: "RangeAllocator"},
		{component: ControllerManager, name: "cloud-config", since: 31, id: "A18"},
		{component: Kubelet, name: "cloud-provider", since: 31, id: "A4", but: "external"},
		{component: Kubelet, name: "cloud-config", since: 34, id: "A5"},
	}
}

// KubeletFlags are the names of kubelet arguments that a plan for the version asks for: its feature gates, and all that
// it refuses and an earlier one knew.
func KubeletFlags(target *version.Version) []string {
	names := []string{"feature-gates"}
	for _, g := range goneFlags() {
		if g.component == Kubelet {
			names = append(names, g.name)
		}
	}
	return append(names, minors.Load().RemovedFlags(string(Kubelet), minorOf(target))...)
}

func minorOf(v *version.Version) string { return version.MajorMinor(v.Major(), v.Minor()).String() }

// checkUses finds what components of the target refuse, each by its place.
func (p *planner) checkUses() {
	for _, u := range p.Uses {
		f, found := p.judge(u)
		if !found {
			continue
		}
		f = warned(f)
		f.Object = u.Where
		if u.Node != "" && !strings.Contains(u.Where, u.Node) {
			f.Object = u.Node + ":" + u.Where
		}
		if u.Rewritten || u.Where == KubeletConfiguration && p.cleansGate(u.Name) {
			f.Severity = finding.SeverityWarning
			f.Message += "; kubeadm upgrade rewrites it without that, unless its own configuration or a patch has it"
		}
		if f.Severity == finding.SeverityError {
			f.Next = "remove it there, before anything is upgraded"
		}
		if u.Told && f.Severity == finding.SeverityError && !p.leads(u.Node) {
			f.Severity = finding.SeverityWarning
			f.Next = "remove it there, before that kubelet is upgraded"
		}
		if u.Cleaned && Refuses(p.target, u) {
			f.Severity = finding.SeverityWarning
			f.Next = "ccmadm upgrade apply removes it there; a plain kubeadm upgrade may leave it"
		}
		p.add(f)
	}
	if len(p.Unseen) > 0 && p.kubeletsMove() && p.target.Minor() > p.oldest.Minor() {
		f := finding.FlagsUnseen.New("", "the kubelet's arguments or feature gates cannot be seen from here, of "+inOrder(p.Unseen))
		f.Next = "on each: grep -nE -e '--(" + strings.Join(KubeletFlags(p.target), "|") + ")' -e featureGates " +
			"/var/lib/kubelet/kubeadm-flags.env /var/lib/kubelet/config.yaml " +
			"/etc/default/kubelet /etc/sysconfig/kubelet /etc/systemd/system/kubelet.service.d/*"
		p.add(f)
	}
}

// cleansGate tells whether kubelets have a gate by kubeadm's configuration of them, out of which it is taken: kubeadm
// upgrade gives each machine what is left.
func (p *planner) cleansGate(name string) bool {
	return slices.ContainsFunc(p.Uses, func(u Use) bool { return u.Component == Kubelet && u.Name == name && u.Cleaned })
}

// leads tells whether a Node is a control plane. A worker's kubelet may say of itself what it likes, and does not keep
// the cluster from an upgrade with that.
func (p *planner) leads(node string) bool {
	return slices.ContainsFunc(p.Nodes, func(n Node) bool { return n.Name == node && n.ControlPlane })
}

// Refuses tells whether a component of the version ends with what it is told, or passes over it. What a later version ends
// is not meant.
func Refuses(v *version.Version, u Use) bool {
	p := planner{target: v}
	f, found := p.judge(u)
	return found && f.Severity != finding.SeverityNote
}

// judge says what is wrong with one argument or feature gate. A component runs with it now: what no known minor had is of
// a program that upstream has not built, and stays.
func (p *planner) judge(u Use) (finding.Finding, bool) {
	none := finding.Finding{}
	minor, history := minorOf(p.target), minors.Load()
	if gate, is := strings.CutPrefix(u.Name, GatePrefix); is {
		if u.Component == Kubeadm {
			refusal, why := history.KubeadmGate(gate, minor)
			f := finding.GateGone.New("", why+": an upgrade passes over it, and a file that has it, too, is refused")
			f.Severity = finding.SeverityWarning
			return f, refusal == minors.Removed
		}
		switch refusal, why := history.Gate(string(u.Component), gate, u.Value, minor); refusal {
		case minors.Removed:
			return finding.GateGone.New("", why), true
		case minors.Locked:
			return finding.GateLocked.New("", why), true
		default:
			return none, false
		}
	}
	if u.Component == ControllerManager && u.Name == Controllers {
		return finding.ID("A9").Ahead(int(p.target.Minor()), "", fmt.Sprintf("%s has --controllers=%s", u.Component, u.Value)),
			minors.NamesCloudController(u.Value)
	}
	for _, g := range goneFlags() {
		if g.component != u.Component || g.name != u.Name || p.target.Minor() < g.since ||
			g.but != "" && (u.Value == g.but || u.Value == "") {
			continue
		}
		return g.id.New("", fmt.Sprintf("%s has --%s=%s, which 1.%d and newer refuse or ignore",
			u.Component, u.Name, u.Value, g.since)), true
	}
	refusal, why := history.Flag(string(u.Component), u.Name, minor)
	return finding.FlagGone.New("", why), refusal == minors.Removed
}
