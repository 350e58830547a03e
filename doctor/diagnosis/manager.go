package diagnosis

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/templates"
)

// noManager says that what ccmadm has installed is gone. In a cluster of others a manager may have any name: that
// that there is no leader is all that is known there.
func noManager(v *view) []finding.Finding {
	said := slices.ContainsFunc(waitingNodes(v), func(f finding.Finding) bool { return f.ID == finding.NoPod })
	if v.Provider == "" || v.Mode == "Manual" || len(v.managers) > 0 || v.leads() || said {
		return nil
	}
	f := finding.NoPod.New("Lease/"+v1alpha1.Namespace+"/"+v.leaseName(),
		"ccmadm installed one ("+v.Provider+", "+v.Mode+"), and it has neither a pod nor a workload")
	f.Next = "ccmadm apply --force"
	return []finding.Finding{f}
}

// noFile is the kubelet's of a hostPath with a type.
var noFile = regexp.MustCompile(`hostPath type check failed: \S+ is not a `)

// missingFiles are those of the machine that a pod mounts.
func missingFiles(v *view) []finding.Finding {
	var list []finding.Finding
	for i := range v.managers {
		m := &v.managers[i]
		e := v.latest(m, "FailedMount")
		waits := e != nil && slices.ContainsFunc(m.pods, func(p *corev1.Pod) bool {
			return e.InvolvedObject.Name == p.Name && !running(p) && !nodes.LastSeen(e).Before(p.CreationTimestamp.Time)
		})
		if waits && noFile.MatchString(e.Message) {
			f := finding.FileMissing.New(m.object, "its pod cannot start: "+nodes.Shorten(e.Message))
			f.Next = "kubectl -n " + m.namespace + " describe pod " + e.InvolvedObject.Name
			list = append(list, f)
		}
	}
	return list
}

// noReplicas are Deployments that want no pod.
func noReplicas(v *view) []finding.Finding {
	m := v.main()
	if m == nil || v.leads() || !m.scaledToNothing() {
		return nil
	}
	f := finding.NoReplicas.New(m.object, "it is scaled to 0, and there is no leader")
	f.Next = "kubectl -n " + m.namespace + " scale " + workloadOf(m) + " --replicas=1"
	return []finding.Finding{f}
}

// scaledToNothing says that it is a Deployment that wants no pod.
func (m *manager) scaledToNothing() bool { return m.replicas != nil && *m.replicas == 0 }

// misread finds what ccmadm has written down and cannot read.
func misread(s *Snapshot) []finding.Finding {
	var list []finding.Finding
	add := func(id finding.ID, name string, m *Misread) {
		if m != nil {
			f := id.New("ConfigMap/"+v1alpha1.Namespace+"/"+name, m.Message)
			f.Next = m.Next
			list = append(list, f)
		}
	}
	add(finding.RecordUnreadable, v1alpha1.RecordName, s.RecordMisread)
	add(finding.JournalUnreadable, v1alpha1.JournalName, s.JournalMisread)
	return list
}

// unfinished finds a command that stopped halfway.
func unfinished(s *Snapshot) []finding.Finding {
	u := s.Unfinished
	if u == nil || u.Command == "leave" && s.Provider == "" && s.RecordMisread == nil { // the record goes last
		return nil
	}
	ended := "was cut short"
	if u.Error != "" {
		ended = "failed"
	}
	text := fmt.Sprintf("ccmadm %s on %s, run %d of the journal, %s after %s", u.Command, u.Machine, u.Run, ended,
		finding.Count(u.Done, "step"))
	if u.Step != "" {
		text += ", at " + u.Step
	}
	if first, _, _ := strings.Cut(u.Error, "\n"); first != "" {
		text += ": " + first
	}
	f := finding.RunUnfinished.New("ConfigMap/"+v1alpha1.Namespace+"/"+v1alpha1.JournalName, text)
	f.Next = "on " + u.Machine + ": " + cmp.Or(u.Line, "ccmadm "+u.Command+", with the flags of that run")
	return []finding.Finding{f}
}

// halfway is what a cluster shows between two modes.
func halfway() []finding.ID {
	return []finding.ID{"A1", "A2", "B5", finding.NeverTainted, finding.KubeletNotExternal, finding.NotServed}
}

// permissions finds what the manager may not do before a Node waits for it. What a Node waits for already stands there.
func permissions(v *view) []finding.Finding {
	said := slices.ContainsFunc(waitingNodes(v), func(f finding.Finding) bool {
		return f.Reason == finding.MissingPermission.Kind().Reason
	})
	m := v.main()
	if m == nil || said || m.arg("kubeconfig") != "" && !strings.HasPrefix(m.object, "Pod/") { // it may be another user
		return nil
	}
	f := v.facts.Lacks()
	if f == nil {
		return nil
	}
	f.Object = m.object
	return []finding.Finding{*f}
}

// byVerbs leaves what a permission can explain: without those for Services, only what waits for load balancers, and
// without those for ConfigMaps, a list of machines that is in one.
func byVerbs(_ *view, f *finding.Finding, all []finding.ID) []finding.ID {
	switch {
	case f.ID == "D9":
		return []finding.ID{finding.BalancerPending, finding.BalancerStuck}
	case strings.Contains(f.Message, "configmaps"):
		return []finding.ID{finding.ReadingRejected, finding.NoInventory, finding.ManagerFails, finding.NotServed}
	case f.Severity != finding.SeverityError:
		return nil
	}
	return all
}

// otherNetwork finds a manager whose routes are for another network of pods than Nodes have.
func otherNetwork(v *view) []finding.Finding {
	m := v.main()
	if m == nil || !m.makesRoutes() || m.Profile != nil && !m.Profile.Has(templates.Routes) {
		return nil
	}
	var of []netip.Prefix
	for text := range strings.SplitSeq(m.arg("cluster-cidr"), ",") {
		if p, err := netip.ParsePrefix(strings.TrimSpace(text)); err == nil {
			of = append(of, p)
		}
	}
	for i := range v.Nodes {
		for _, cidr := range v.Nodes[i].Spec.PodCIDRs {
			p, err := netip.ParsePrefix(cidr)
			same := func(other netip.Prefix) bool { return other.Addr().Is4() == p.Addr().Is4() }
			if err != nil || !slices.ContainsFunc(of, same) || slices.ContainsFunc(of, func(other netip.Prefix) bool { return other.Overlaps(p) }) {
				continue
			}
			f := finding.SettingsDisagree.New(m.object, "network of pods: it has --cluster-cidr="+m.arg("cluster-cidr")+", and Nodes have networks such as "+
				cidr+": routes of Nodes that are gone stay")
			f.Next = "kubectl -n kube-system get configmap kubeadm-config -o yaml | grep podSubnet"
			return []finding.Finding{f}
		}
	}
	return nil
}

// rolledOut is how long a rollout may take after its newest pod was made.
const rolledOut = 10 * time.Minute

// twoVersions finds workloads of which some pods have another image than others, and no rollout goes on: which one leads, chance decides.
func twoVersions(v *view) []finding.Finding {
	var list []finding.Finding
	for i := range v.managers {
		m := &v.managers[i]
		images, newest := map[string][]string{}, time.Time{}
		for _, p := range m.pods {
			if m.Container < len(p.Spec.Containers) && running(p) {
				image := p.Spec.Containers[m.Container].Image
				images[image] = append(images[image], p.Name)
			}
			if p.CreationTimestamp.After(newest) {
				newest = p.CreationTimestamp.Time
			}
		}
		if len(images) < 2 || v.since(newest) < rolledOut {
			continue
		}
		f := finding.SettingsDisagree.New(m.object, "versions: its pods run "+join(slices.Sorted(maps.Keys(images))))
		f.Next = "kubectl -n " + m.namespace + " get pods -o custom-columns=POD:.metadata.name,IMAGE:.spec.containers[*].image"
		list = append(list, f)
	}
	return list
}
