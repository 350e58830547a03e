package diagnosis

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/api/finding"
)

// hostDetectors look at the machine on which the doctor runs; without --host they find nothing.
func hostDetectors() []detector {
	leaderless := []finding.ID{
		finding.NoPod, finding.NoLeader, finding.LeaderSilent, finding.BalancerPending, finding.BalancerStuck,
	}
	node := []finding.ID{finding.KubeletSilent, finding.NotReady}
	runs := []finding.ID{finding.KubeletNotRun}
	identity := []finding.ID{finding.IdentityEnds, finding.IdentityEnded, finding.Unauthorized, finding.KubeletNotRun, finding.KubeletSilent}
	crash := []finding.ID{finding.CrashLoop, finding.PodTerminated}
	return []detector{
		{"clock", []string{HostClockPart}, onHost(clockOff), []finding.ID{finding.CertificateEnded}, byClock, true},
		{"disks", []string{HostDisksPart}, onHost(fullDisks), nil, nil, true},
		{"kubelet flags", []string{HostFlagsPart}, onHost(hostFlags), slices.Concat(runs, node), onlyOf("A4", "A5"), true},
		{"kubelet process", []string{HostKubeletPart, HostFlagsPart}, onHost(staleFlags), nil, nil, true},
		{"certificates", []string{HostCertsPart}, onHost(certificates), slices.Concat(identity, leaderless), onlyOf(finding.CertificateEnded), true},
		{"container runtime", []string{HostRuntimePart}, onHost(runtimeOf), slices.Concat(runs, node), onlyOf(finding.RuntimeSilent), true},
		{"kubelet unit", []string{HostKubeletPart}, onHost(kubeletUnit), node, onlyOf(finding.KubeletNotRun), true},
		{"the kubelet's Node", []string{HostNodePart}, onHost(withoutNode), slices.Concat(node, []finding.ID{finding.ServiceUnanswered}), onlyOf(finding.KubeletWithoutNode), true},
		{"static pods", []string{HostManifestsPart}, onHost(staticPods), leaderless, ofManager, true},
		{"ports", []string{HostPortsPart}, onHost(takenPorts), slices.Concat(crash, leaderless), onlyOf("B10"), true},
		{"the API server's Service", []string{HostServicePart}, onHost(unansweredService), nil, nil, true},
		{"resolver", []string{HostResolverPart}, onHost(resolver), []finding.ID{finding.CloudNotFound}, nil, true},
	}
}

// onlyOf says which findings of a detector explain anything.
func onlyOf(ids ...finding.ID) func(*view, *finding.Finding, []finding.ID) []finding.ID {
	return func(_ *view, f *finding.Finding, explains []finding.ID) []finding.ID {
		if slices.Contains(ids, f.ID) {
			return explains
		}
		return nil
	}
}

// ofManager says that another static pod's file does not keep a manager from running.
func ofManager(_ *view, f *finding.Finding, explains []finding.ID) []finding.ID {
	if strings.Contains(f.Message, "cloud-controller") || strings.Contains(f.Message, "ccm") {
		return explains
	}
	return nil
}

// onHost looks where there is a machine to be looked at.
func onHost(find func(*view, *Host) []finding.Finding) func(*view) []finding.Finding {
	return func(v *view) []finding.Finding {
		if v.Host == nil {
			return nil
		}
		return find(v, v.Host)
	}
}

func (h *Host) node() string    { return "Node/" + finding.Clean(h.Node) }
func (h *Host) machine() string { return "Machine/" + finding.Clean(h.Name) }

// flag is the one of the name; an empty one where there is none.
func (h *Host) flag(name string) HostFlag {
	i := slices.IndexFunc(h.Flags, func(f HostFlag) bool { return f.Name == name })
	if i < 0 {
		return HostFlag{Name: name}
	}
	return h.Flags[i]
}

// wanted is the value by the files.
func (f *HostFlag) wanted() (string, bool) {
	if len(f.Places) == 0 {
		return "", false
	}
	return f.Places[len(f.Places)-1].Value, true
}

// twice says that two places contradict each other.
func (f *HostFlag) twice() bool {
	for i, p := range f.Places {
		if slices.ContainsFunc(f.Places[:i], func(first HostPlace) bool { return first.contradicts(f.Name, p) }) {
			return true
		}
	}
	return false
}

// effective is the value of the process, or of the files where there is none.
func (h *Host) effective(name string) (string, bool) {
	f := h.flag(name)
	if h.Unit != nil && h.Unit.PID > 0 {
		return f.Value, f.Runs
	}
	return f.wanted()
}

func (p HostPlace) String() string {
	if p.Line == 0 {
		return fmt.Sprintf("%s: %s", p.File, p.Value)
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Value)
}

const restartKubelet = "systemctl daemon-reload && systemctl restart kubelet"

// hostFlags finds flags that keep the kubelet from external cloud mode, or from starting.
func hostFlags(v *view, h *Host) []finding.Finding {
	var list []finding.Finding
	for _, f := range h.Flags {
		if f.twice() {
			var places []string
			for _, p := range f.Places {
				places = append(places, p.String())
			}
			last := f.Places[len(f.Places)-1]
			found := finding.KubeletFlagTwice.New(h.node(),
				fmt.Sprintf("--%s is set by %s; the last one wins", f.Name, strings.Join(places, ", and by ")))
			found.Next = "remove it from all but " + last.File + ", or from there; then: " + restartKubelet
			list = append(list, found)
		}
	}
	list = append(list, cloudFlags(v, h)...)
	ip, _ := h.effective("node-ip")
	for text := range strings.SplitSeq(ip, ",") {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.IsUnspecified() || len(h.Addresses) == 0 || slices.Contains(h.Addresses, addr.String()) {
			continue
		}
		found := finding.NodeIPNotLocal.New(h.node(), fmt.Sprintf("--node-ip is %s, and this machine has %s", addr, join(h.Addresses)))
		found.Next = "ccmadm node show; then correct it there, and: " + restartKubelet
		list = append(list, found)
	}
	return list
}

// cloudFlags looks at --cloud-provider and --cloud-config.
func cloudFlags(v *view, h *Host) []finding.Finding {
	var list []finding.Finding
	provider, is := h.effective("cloud-provider")
	switch {
	case is && provider != "" && provider != "external" && !expanded.MatchString(provider):
		f := finding.ID("A4").New(h.node(), "--cloud-provider is "+provider+", and kubelets know external only")
		f.Next = "ccmadm node show says where it stands; set external there, then: " + restartKubelet
		list = append(list, f)
	case provider == "" && (h.Ours || v.Provider != "") && h.Unit != nil && h.Unit.PID > 0:
		f := finding.ID("A1").New(h.node(), "its process runs without --cloud-provider=external")
		f.Next = "ccmadm node show; ccmadm join phase kubelet, then: " + restartKubelet
		list = append(list, f)
	}
	gone, is := h.effective("cloud-config")
	kubelet, err := version.ParseGeneric(h.Version)
	if is && err == nil && kubelet.AtLeast(version.MajorMinor(1, 34)) {
		f := finding.ID("A5").New(h.node(), "--cloud-config="+gone+" is set, and a kubelet of "+h.Version+" does not know it")
		f.Next = "ccmadm node show says where it stands; remove it there, then: " + restartKubelet
		list = append(list, f)
	}
	return list
}

// unlike are the flags that files say, and that the process does not have, or has otherwise.
func (h *Host) unlike() []HostFlag {
	var list []HostFlag
	for _, f := range h.Flags {
		wanted, is := f.wanted()
		if is && (!f.Runs || !f.Places[len(f.Places)-1].open() && !sameValue(f.Name, f.Value, wanted)) {
			list = append(list, f)
		}
	}
	return list
}

// staleFlags finds what files say and the process does not have.
func staleFlags(_ *view, h *Host) []finding.Finding {
	if h.Unit == nil || h.Unit.PID == 0 {
		return nil
	}
	var differ []string
	for _, f := range h.unlike() {
		runs := "without it"
		if f.Runs {
			runs = "with " + f.Value
		}
		last := f.Places[len(f.Places)-1]
		differ = append(differ, fmt.Sprintf("--%s is %s, and the process %d runs %s", f.Name, last, h.Unit.PID, runs))
	}
	if len(differ) == 0 && !h.Unit.Stale {
		return nil
	}
	if len(differ) == 0 {
		differ = []string{"systemd has not read the unit's files since they changed"}
	}
	f := finding.KubeletStale.New(h.node(), strings.Join(differ, "; "))
	f.Next = restartKubelet
	if !h.restartIsSafe() {
		f.Next = "ccmadm node show; once the files say what is wanted: " + restartKubelet
	}
	return []finding.Finding{f}
}

// withoutNode finds a kubelet that runs, and has no Node.
func withoutNode(v *view, h *Host) []finding.Finding {
	if h.Registered == nil || !h.Registered.Missing {
		return nil
	}
	return []finding.Finding{v.kubeletWithoutNode(h.Registered.Name, "its kubelet runs, and there is no such Node")}
}

// kubeletUnit finds a kubelet that does not run, or will not after a boot.
func kubeletUnit(_ *view, h *Host) []finding.Finding {
	u := h.Unit
	if u == nil {
		return nil
	}
	var list []finding.Finding
	if u.Load == "not-found" || u.PID == 0 {
		seen := fmt.Sprintf("unit kubelet is %s (%s), started %d times again", u.Active, u.Sub, u.Restarts)
		if u.Load == "not-found" {
			seen = "there is no unit kubelet"
		}
		if u.Complaint != "" {
			seen += "; its log ends with: " + u.Complaint
		}
		f := finding.KubeletNotRun.New(h.node(), seen)
		f.Next = "journalctl -u kubelet --no-pager -n 50"
		if u.Active == "inactive" {
			f.Next = "systemctl start kubelet"
		}
		list = append(list, f)
	}
	if u.File == "disabled" || u.File == "masked" {
		f := finding.KubeletNotEnabled.New(h.node(), "unit kubelet is "+u.File)
		f.Next = "systemctl enable kubelet"
		if u.File == "masked" {
			f.Next = "systemctl unmask kubelet && systemctl enable kubelet"
		}
		list = append(list, f)
	}
	return list
}
