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

const (
	// rounds is how long the node controller waits between two rounds of questions about all initialized Nodes, without
	// --node-status-update-frequency (k8s.io/cloud-provider config/v1alpha1/defaults.go).
	rounds = 5 * time.Minute
	// answered is for how long the first answer of a round may take.
	answered = 2 * time.Minute
	// mostAsked bounds the lines of one round that a log is expected to have: its last lines are read only.
	mostAsked = 100
)

// round is how long a manager waits between two rounds.
func (m *manager) round() time.Duration {
	if d, err := time.ParseDuration(m.arg("node-status-update-frequency")); err == nil && d > 0 {
		return d
	}
	return rounds
}

var (
	// ofRound is how the node controller says that its cloud has not answered about one Node of a round. Of those with an answer it
	// says nothing.
	ofRound = regexp.MustCompile(`[Ee]rror getting instance metadata for node addresses`)
	// cloudAnswers is what controllers say after their cloud has answered.
	cloudAnswers = regexp.MustCompile(`Successfully initialized|Ensured load balancer`)
	// ofOneNode is an answer after all: about a machine that the cloud does not know, or about too many questions; or it is about the
	// manager's own API server. The cloud may have another one (KubeVirt), at the same port.
	ofOneNode = regexp.MustCompile(`(?i:not found|quota|limit ?exceeded|throttl|too many requests)|:6443/api/v1/|` + ofAPIServerAnywhere)
)

// unansweredRounds finds a manager to which its cloud gives no answer about any Node, round for round: initialized Nodes keep what
// they have, and nothing else shows it until a machine joins or is removed. One error may be a Node's, or a moment's: here all Nodes
// have one, in more than one round.
func unansweredRounds(v *view) []finding.Finding {
	asked := 0
	for i := range v.Nodes {
		if !nodes.IsTainted(&v.Nodes[i]) {
			asked++
		}
	}
	var list []finding.Finding
	for i := range v.managers {
		m := &v.managers[i]
		if m.Profile != nil && m.Profile.Name == onprem { // it has no cloud
			continue
		}
		for _, p := range m.pods {
			line := v.lastOfRounds(m, v.Logs[p.Name], min(asked, mostAsked))
			if line == "" {
				continue
			}
			if slices.ContainsFunc(symptomsInLog(v), func(f finding.Finding) bool { return f.Object == m.object }) {
				break // that says more of the same manager
			}
			f := finding.CloudUnanswered.New(m.object, "pod "+p.Name+" logs of each Node that it asks about: "+nodes.Shorten(line))
			f.Next = "kubectl -n " + m.namespace + " logs " + p.Name
			list = append(list, f)
			break
		}
	}
	return list
}

// questions are the errors of one round of questions about Nodes.
type questions struct {
	last           string
	lines          int
	newest, oldest time.Time
}

// roundsOf are the rounds at the end of a log with an error, the newest first, and whether the log reaches back to the time of the round
// before them.
func (s *Snapshot) roundsOf(m *manager, log []string) (list []questions, reaches bool) {
	round := m.round()
	var r *questions
	var first time.Time
	for _, line := range slices.Backward(log) {
		at := s.timeOf(line)
		if !at.IsZero() {
			first = at
		}
		between := r != nil && !at.IsZero() && r.oldest.Sub(at) > round+answered // a round without an error
		if between || cloudAnswers.MatchString(line) {
			return list, true
		}
		if at.IsZero() || !ofRound.MatchString(line) || ofOneNode.MatchString(line) {
			continue
		}
		if r == nil || r.oldest.Sub(at) >= round {
			list = append(list, questions{last: line, newest: at})
			r = &list[len(list)-1]
		}
		r.lines, r.oldest = r.lines+1, at
	}
	return list, r != nil && r.oldest.Sub(first) >= round
}

// lastOfRounds is the last line of a log whose last two rounds have an error for each of so many Nodes; empty where they have not, or are
// over. One Node whose error lasts, and one moment in which all have one, are no two rounds. The newest round may go on: then the one
// before it is enough where the log was cut off before it; the log of a manager that has just been started was not. Of a big cluster the log
// may have one round only.
func (s *Snapshot) lastOfRounds(m *manager, log []string, asked int) string {
	list, reaches := s.roundsOf(m, log)
	if asked == 0 || len(list) == 0 || !s.lately(m, list[0].newest) {
		return ""
	}
	last, goesOn := list[0].last, list[0].lines < asked && s.since(list[0].newest) < answered
	if goesOn {
		list = list[1:]
	}
	if len(list) == 0 || list[0].lines < asked {
		return ""
	}
	lasts := list[0].newest.Sub(list[0].oldest) >= m.round() // there is no pause between rounds
	cut := len(log) >= nodes.LogLines && !reaches
	second := len(list) > 1 && list[1].lines >= asked || len(list) == 1 && goesOn && cut
	big := cut && len(list) <= 2 && list[0].lines >= mostAsked
	if !lasts && !second && !big {
		return ""
	}
	return last
}
