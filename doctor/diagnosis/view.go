package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/components"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/templates"
)

// view is a snapshot with what follows from it.
type view struct {
	*Snapshot
	managers []manager
	// facts are what package nodes judges by, and report is its judgement.
	facts  *nodes.Facts
	report *nodes.Report
	byName map[string]*corev1.Node
}

// manager is one cloud-controller-manager: a workload, or static pods that have the same program.
type manager struct {
	templates.Manager
	// object is Kind/namespace/name.
	object, namespace, name string
	pod                     *corev1.PodSpec
	pods                    []*corev1.Pod
	// wanted is how many machines the scheduler finds for a DaemonSet; less than 0: not known.
	wanted int32
	// labels are the workload's own; of static pods, and of those that nothing has made, the last pod's.
	labels map[string]string
	// replicas is what a Deployment wants. Nil: it does not say, or is none.
	replicas *int32
}

func newView(s *Snapshot) *view {
	v := &view{Snapshot: s, byName: map[string]*corev1.Node{}}
	for i := range s.Nodes {
		v.byName[s.Nodes[i].Name] = &s.Nodes[i]
	}
	v.findManagers(templates.Known())
	v.facts = v.findFacts()
	return v
}

func (v *view) findManagers(profiles templates.Profiles) {
	for i := range v.Deployments {
		d := &v.Deployments[i]
		if m := v.addManager(profiles, "Deployment", d.Namespace, d.Name, &d.Spec.Template.Spec); m != nil {
			m.labels, m.replicas = d.Labels, d.Spec.Replicas
		}
	}
	for i := range v.DaemonSets {
		d := &v.DaemonSets[i]
		m := v.addManager(profiles, "DaemonSet", d.Namespace, d.Name, &d.Spec.Template.Spec)
		if m == nil {
			continue
		}
		m.labels = d.Labels
		if d.Status.ObservedGeneration >= d.Generation {
			m.wanted = d.Status.DesiredNumberScheduled
		}
	}
	stray := nodes.Strays(v.Nodes)
	for i := range v.Pods {
		p := &v.Pods[i]
		if stray(p) || nodes.LeftOver(p) {
			continue
		}
		kind, name := owner(p)
		at := slices.IndexFunc(v.managers, func(m manager) bool {
			return m.namespace == p.Namespace && m.name == name && strings.HasPrefix(m.object, kind+"/")
		})
		if at < 0 {
			if v.addManager(profiles, kind, p.Namespace, name, &p.Spec) == nil {
				continue
			}
			at = len(v.managers) - 1
		}
		m := &v.managers[at]
		m.pods = append(m.pods, p)
		if kind == "Pod" {
			m.labels = p.Labels
		}
	}
}

// addManager adds what has the program of one, and returns it until the next is added; nil where it has not.
func (v *view) addManager(profiles templates.Profiles, kind, namespace, name string, pod *corev1.PodSpec) *manager {
	m, ok := profiles.Recognize(name, pod.Containers)
	if !ok || m.Agent {
		return nil
	}
	v.managers = append(v.managers, manager{
		Manager: m, object: kind + "/" + namespace + "/" + name, namespace: namespace, name: name, pod: pod, wanted: -1,
	})
	return &v.managers[len(v.managers)-1]
}

// owner is the workload of a pod; of a static pod, what its file calls it.
func owner(p *corev1.Pod) (kind, name string) {
	if nodes.IsMirror(p) {
		return "Pod", strings.TrimSuffix(p.Name, "-"+p.Spec.NodeName)
	}
	if kind, name = components.Owner(p); kind != "" {
		return kind, name
	}
	return "Pod", p.Name
}

// initializes reports whether the manager has a node controller, as far as is known.
func (m *manager) initializes() bool { return m.Profile == nil || m.Profile.Has(templates.Nodes) }

func (m *manager) arg(name string) string {
	a, _ := templates.LookupArg(m.Args, name)
	return a.Value
}

// leaseName is that of the Lease by the arguments, or by what is known of the program.
func (m *manager) leaseName() string {
	name := m.arg("leader-elect-resource-name")
	if name == "" && m.Profile != nil {
		name = m.Profile.LeaseName()
	}
	return cmp.Or(name, v1alpha1.LeaseName)
}

func (m *manager) leaseNamespace() string {
	return cmp.Or(m.arg("leader-elect-resource-namespace"), v1alpha1.Namespace)
}

// leaseOf is the Lease that a manager asks for; nil where it is not there.
func (v *view) leaseOf(m *manager) *coordinationv1.Lease {
	return v.lease(m.leaseNamespace(), m.leaseName())
}

// main is the manager that initializes nodes; nil where there is none.
func (v *view) main() *manager {
	i := slices.IndexFunc(v.managers, func(m manager) bool { return m.initializes() })
	if i < 0 {
		return nil
	}
	return &v.managers[i]
}

// leaseName prefers what is running to what was recorded.
func (v *view) leaseName() string {
	if m := v.main(); m != nil {
		return m.leaseName()
	}
	return cmp.Or(v.LeaseName, v1alpha1.LeaseName)
}

func (v *view) leaseNamespace() string {
	if m := v.main(); m != nil {
		return m.leaseNamespace()
	}
	return v1alpha1.Namespace
}

// findFacts makes of the snapshot what wait and status go by, too.
func (v *view) findFacts() *nodes.Facts {
	f := &nodes.Facts{
		Now: v.Taken, Nodes: v.Nodes, LeaseNamespace: v.leaseNamespace(), LeaseName: v.leaseName(), Logs: v.Logs, Events: v.Events,
		Reviews: v.Reviews, Answers: v.Answers, Heartbeats: v.Heartbeats, Networks: networksWithPods(v.Snapshot),
		Alive:    map[string]bool{},
		Recorded: v.Provider != "",
	}
	if m := v.main(); m != nil && m.Profile != nil {
		f.Balances, f.Asks = m.Profile.Has(templates.Services), !m.Profile.OwnFlags
	}
	if m := v.main(); m != nil {
		f.Workload = m.object
		if e := v.latest(m, "FailedCreate"); e != nil {
			f.NotMade = e.Message
		}
	}
	for node := range v.Settings.Kubelets {
		f.Alive[node] = true
	}
	f.Lease = v.lease(f.LeaseNamespace, f.LeaseName)
	unseen := v.notSeen(leasesIn(f.LeaseNamespace))
	f.LeaseListed = f.LeaseNamespace == v1alpha1.Namespace && unseen == nil
	if unseen != nil && f.Lease == nil {
		f.LeaseErr = unseen
	}
	if v.Renewed != nil {
		f.Renewed = *v.Renewed
	}
	if n := v.podsNotSeen(); n != nil {
		f.PodsErr = n
		return f
	}
	f.Unmanaged = v.unmanaged()
	for _, m := range v.managers {
		for _, p := range m.pods {
			if m.initializes() {
				f.Pods = append(f.Pods, *p)
			}
		}
	}
	return f
}

// unmanaged says that neither ccmadm nor anybody else has brought a manager that initializes Nodes. One that runs
// outside of the cluster, or in another program, has a Lease.
func (v *view) unmanaged() bool {
	for _, part := range []string{partRecord, partDeployments, partDaemonSets, partLeases} {
		if v.notSeen(part) != nil {
			return false
		}
	}
	return v.Provider == "" && v.RecordMisread == nil && v.main() == nil &&
		!slices.ContainsFunc(v.Leases, func(l coordinationv1.Lease) bool {
			return strings.Contains(l.Name, v1alpha1.LeaseName) && v.renewed(&l)
		})
}

// podsNotSeen returns why it is not known which pods the main manager has; nil where it is.
func (v *view) podsNotSeen() *NotSeen {
	if n := v.notSeen(partPods); n != nil {
		return n
	}
	m := v.main()
	if m == nil { // it may be in a namespace that a workload would have named
		return cmp.Or(v.notSeen(partDeployments), v.notSeen(partDaemonSets))
	}
	return v.notSeen(podsIn(m.namespace))
}

// leads reports whether the main manager's Lease was being renewed, or it works without.
func (v *view) leads() bool { return v.facts.Led() }

func join(list []string) string { return some(list, 5) }

// some bounds a list of names.
func some(names []string, most int) string { return finding.Clean(nodes.Some(names, most)) }

// waits reports whether a Node has not come as far as being initialized, and has not just joined.
func (v *view) waits() bool {
	return slices.ContainsFunc(v.report.Nodes, func(s nodes.Status) bool {
		return s.State < nodes.Initialized && !v.hasJustJoined(s.Node)
	})
}

// hasJustJoined tells whether a Node is so young that much is missing there which nothing is wrong with.
func (v *view) hasJustJoined(node string) bool {
	n := v.byName[node]
	return n != nil && v.since(n.CreationTimestamp.Time) <= components.Settling
}

// onTheWay is what each Node has for some seconds after it has joined: nothing is wrong yet.
func onTheWay() []finding.ID {
	return []finding.ID{finding.NotServed, finding.NoInternalIP, finding.NotReady}
}

// waitingNodes are the causes that wait and status name: one engine says them (package doctor/nodes).
func waitingNodes(v *view) []finding.Finding {
	var list []finding.Finding
	for _, s := range v.report.Nodes {
		if s.Cause != nil {
			list = append(list, *s.Cause)
			if v.hasJustJoined(s.Node) && slices.Contains(onTheWay(), s.Cause.ID) {
				list[len(list)-1].Severity = finding.SeverityNote
			}
		}
	}
	list = append(list, v.facts.Silent(v.report.Nodes)...)
	return append(list, v.report.Findings...)
}

// Report is what `ccmadm status` says of the Nodes of the snapshot. The error says that they could not be read.
func (s *Snapshot) Report() (*nodes.Report, error) {
	if n := s.notSeen(partNodes); n != nil {
		return nil, fmt.Errorf("list nodes: %w", n)
	}
	return nodes.Judge(newView(s).facts, nil), nil
}

// Behind reports whether there is no leader, or a Node waits to be initialized, and has not just joined.
func (s *Snapshot) Behind() bool {
	v := newView(s)
	v.report = nodes.Judge(v.facts, nil)
	return !v.leads() || v.waits()
}

// renewed reports whether a Lease was held when the snapshot was taken.
func (v *view) renewed(l *coordinationv1.Lease) bool { return nodes.Renewed(l, v.Taken) }

// eventsOf are recent warnings about a manager's workload, its ReplicaSets and its pods.
func (v *view) eventsOf(m *manager) []corev1.Event {
	var list []corev1.Event
	for _, e := range v.Events {
		last := nodes.LastSeen(&e)
		about := e.InvolvedObject.Namespace == m.namespace && ofKind(m, e.InvolvedObject.Kind) &&
			(e.InvolvedObject.Name == m.name || strings.HasPrefix(e.InvolvedObject.Name, m.name+"-"))
		if about && v.since(last) < nodes.RecentEvent {
			list = append(list, e)
		}
	}
	return list
}

// ofKind reports whether an object of a kind is the manager's workload, or made by it: two workloads may have one name.
func ofKind(m *manager, kind string) bool {
	workload, _, _ := strings.Cut(m.object, "/")
	return kind == "" || kind == "Pod" || kind == workload || kind == "ReplicaSet" && workload == "Deployment"
}

// latest is the last Event of a reason about a manager: what was refused before, for another reason, is over.
func (v *view) latest(m *manager, reason string) *corev1.Event {
	var last *corev1.Event
	for _, e := range v.eventsOf(m) {
		if e.Reason == reason && (last == nil || nodes.LastSeen(&e).After(nodes.LastSeen(last))) {
			last = &e
		}
	}
	return last
}
