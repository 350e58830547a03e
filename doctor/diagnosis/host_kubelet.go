package diagnosis

import (
	"cmp"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/components"
	"github.com/ccmadm/ccmadm/machine"
)

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
			found.Do = "remove the flag from all files but " + last.File + ", or from that one, then restart the kubelet"
			found.Next = restartKubelet
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
		found.Message += h.logged()
		found.Next = "ccmadm node show, then: " + restartKubelet
		list = append(list, found)
	}
	return list
}

// logged is the last error in the log of a kubelet that runs, to stand behind what is wrong with it.
func (h *Host) logged() string {
	if h.Unit == nil || h.Unit.PID == 0 || h.Unit.Complaint == "" {
		return ""
	}
	return "; the kubelet logs: " + h.Unit.Complaint
}

// cloudFlags looks at --cloud-provider and --cloud-config.
func cloudFlags(v *view, h *Host) []finding.Finding {
	var list []finding.Finding
	provider, is := h.effective("cloud-provider")
	initialized := v.initialized(h)
	switch {
	case is && provider != "" && provider != "external" && !expanded.MatchString(provider):
		f := finding.ID("A4").New(h.node(), "--cloud-provider is "+provider+", and kubelets accept external only")
		f.Do = "set --cloud-provider=external in the file that has the flag, then restart the kubelet"
		f.Next = "ccmadm node show, then: " + restartKubelet
		list = append(list, f)
	case provider == "" && (h.Ours || v.Provider != "") && h.Unit != nil && h.Unit.PID > 0:
		f := finding.ID("A1").New(h.node(), "its process runs without --cloud-provider=external")
		f.Next = "ccmadm node show, then: ccmadm join phase kubelet, then: " + restartKubelet
		list = append(list, f)
	case provider == "" && initialized != nil:
		f := finding.ID("A1").New(h.node(), "its process runs without --cloud-provider=external, and "+initialized.object+
			" has initialized its Node: both write its addresses")
		f.Next = "ccmadm node show, then: ccmadm node external"
		list = append(list, f)
	}
	gone, is := h.effective("cloud-config")
	kubelet, err := version.ParseGeneric(h.Version)
	if is && err == nil && kubelet.AtLeast(version.MajorMinor(1, 34)) {
		f := finding.ID("A5").New(h.node(), "--cloud-config="+gone+" is set, and a kubelet of "+h.Version+" has no such flag")
		f.Do = "remove the flag from the file that has it, then restart the kubelet"
		f.Next = "ccmadm node show, then: " + restartKubelet
		list = append(list, f)
	}
	return list
}

// initialized is the manager that has given the machine's Node its provider ID, in a cluster of others; nil where none is known to
// have. A Node keeps that ID after its cluster has left external cloud mode, and some tools write one without a manager: only one that
// leads, and is known to initialize Nodes, tells. What the kubelet says by /flagz stands elsewhere, and one with --provider-id, or
// with the same setting in its configuration, waits for no manager.
func (v *view) initialized(h *Host) *manager {
	n, m := v.byName[h.Node], v.main()
	if n == nil || n.Spec.ProviderID == "" || m == nil || m.Profile == nil || withoutNodeController(m) || !v.leads() {
		return nil
	}
	_, told := v.Flags[h.Node]
	read := slices.ContainsFunc(h.Flags, func(f HostFlag) bool { return f.Runs }) // a process that shows no flag at all was not seen
	if told || !read || h.Unit == nil || h.Unit.PID == 0 || h.flag("provider-id").Runs || h.ProviderID != "" {
		return nil
	}
	return m
}

// staleFlags finds what files say and the process does not have.
func staleFlags(h *Host) []finding.Finding {
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
		f.Do = "correct the files, then restart the kubelet; pods keep running"
		f.Next = "ccmadm node show, then: " + restartKubelet
	}
	return []finding.Finding{f}
}

// withoutNode finds a kubelet that runs and has no Node, or whose requests for it are refused.
func withoutNode(v *view, h *Host) []finding.Finding {
	switch n := h.Registered; {
	case n == nil:
		return nil
	case n.Rejected != "":
		f := finding.KubeletRejected.New("Node/"+finding.Clean(n.Name), n.Rejected+h.logged())
		f.Next = n.Next
		return []finding.Finding{f}
	case n.Twin != "":
		f := finding.NodeTwice.New("Node/"+finding.Clean(n.Name), "another machine writes its status in turn with this one: "+n.Twin)
		f.Next = "hostnamectl; cat /etc/machine-id; on the copy: " + v.resetCopy("copy-of-"+n.Name)
		return []finding.Finding{f}
	case n.Missing:
		f := v.kubeletWithoutNode(n.Name, "its kubelet runs, and its Node does not exist")
		f.Message += h.logged()
		if strings.Contains(f.Message, "Unable to register node") {
			f.Do = "correct what the API server's answer names; the kubelet tries again by itself"
			f.Next = "journalctl -u kubelet --no-pager -n 200 | grep 'register node'"
		}
		return []finding.Finding{f}
	}
	return nil
}

// resetCopy gives a machine that is a copy of another one an identity of its own. kubeadm takes its API server's address from the Node that
// kubelet.conf names, which is the original's: the phase remove-etcd-member would remove the original's member from the cluster. Where
// ccmadm has joined the machine, it resets it and joins it again: kubeadm would leave ccmadm's notes of the original on it, and its kubelet
// without the flags of external cloud mode.
func (s *Snapshot) resetCopy(name string) string {
	h, first := s.Host, ""
	if places := h.flag("hostname-override").Places; len(places) > 0 && h.Node != name {
		if file := places[len(places)-1].File; file != machine.KubeadmFlags { // which kubeadm writes again
			first = "remove --hostname-override from " + finding.Clean(file) + ", then: "
		}
	}
	has := func(component string) bool {
		return slices.ContainsFunc(h.Manifests, func(m HostManifest) bool { return m.Pod == v1alpha1.Namespace+"/"+component })
	}
	reset, join := "kubeadm reset --skip-phases=remove-etcd-member", "the command that it prints"
	if h.Ours {
		reset, join = "ccmadm reset -- --skip-phases=remove-etcd-member", "`ccmadm join` with the arguments of the command that it prints"
	}
	if has(components.APIServer) {
		join += ", with --control-plane and --certificate-key KEY; " +
			"`kubeadm init phase upload-certs --upload-certs` on that control plane prints KEY"
	}
	if has(components.Etcd) {
		if h.Ours { // it ends with an error about data of etcd that is still there
			reset = "{ " + reset + " || test ! -e " + machine.EtcdManifest + "; }"
		}
		dir := cmp.Or(readClusterConfiguration(s.Kubeadm).Etcd.Local.DataDir, components.EtcdDataDir)
		reset += " && " + shellLine([]string{"mv", path.Join(dir, "member"), "/root/etcd-member-of-the-copy"}) // else kubeadm does not join
	}
	steps := []string{"systemctl stop kubelet", reset, "rm /etc/machine-id", "systemd-machine-id-setup"}
	if !strings.EqualFold(h.Name, name) {
		steps = append(steps, shellLine([]string{"hostnamectl", "set-hostname", name}))
	}
	return first + strings.Join(steps, " && ") +
		", then on a control plane: kubeadm token create --print-join-command, then on the copy " + join
}

// renamedKubelet finds a kubelet whose name has changed after its machine joined: with its certificate it may write the Node of its former
// name only, and uses the new one. A copy that was renamed has the certificate of the original, which needs its name itself.
func renamedKubelet(s *Snapshot) []finding.Finding {
	h := s.Host
	if h == nil || h.Registered == nil || h.Node == "" || h.Registered.Name == h.Node {
		return nil
	}
	n := h.Registered
	name := finding.Clean(n.Name)
	if n.Foreign != "" {
		f := finding.KubeletRenamed.New(h.node(), "its certificate is that of Node "+name+", which is another machine ("+n.Foreign+
			"), and this machine's kubelet has the name "+h.Node+h.logged())
		f.Do = "this machine is a copy: reset it, give it a machine-id of its own and join it as " + h.Node +
			"; change nothing on the other machine"
		f.Next = s.resetCopy(h.Node)
		return []finding.Finding{f}
	}
	f := finding.KubeletRenamed.New("Node/"+name, "its certificate is that of Node "+name+", and this machine's kubelet has the name "+h.Node)
	f.Next = "hostnamectl set-hostname " + shellLine([]string{n.Name}) + " && systemctl restart kubelet"
	if places := h.flag("hostname-override").Places; len(places) > 0 {
		f.Next = "set --hostname-override=" + name + " in " + places[len(places)-1].File + ", then: " + restartKubelet
	}
	if n.Ready && n.ThisBoot {
		f.Severity = finding.SeverityWarning
		f.Message += "; until its next start it uses its former name"
	}
	f.Message += h.logged()
	return []finding.Finding{f}
}

// kubeletUnit finds a kubelet that does not run, or will not after a boot.
func kubeletUnit(h *Host) []finding.Finding {
	u := h.Unit
	if u == nil {
		return nil
	}
	var list []finding.Finding
	if u.Load == "not-found" || u.PID == 0 {
		seen := fmt.Sprintf("unit kubelet is %s (%s), restarted %s", u.Active, u.Sub, finding.Count(u.Restarts, "time"))
		if u.Load == "not-found" {
			seen = "unit kubelet does not exist"
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
