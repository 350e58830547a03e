package nodes

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Facts are what one look at a cluster shows of its nodes and their manager: all that [Judge] goes by.
type Facts struct {
	// Now is when the cluster was looked at.
	Now   time.Time
	Nodes []corev1.Node
	// Pods are those of the manager. PodsErr says that they could not be asked for.
	Pods    []corev1.Pod
	PodsErr error
	// Workload is what makes the manager's pods, as Deployment/NAMESPACE/NAME; NotMade is why it could not, where its controller has said so.
	Workload, NotMade string
	// Events are warnings about the manager's pods, among others.
	Events []corev1.Event
	// Balances says that it serves load balancers, Asks that it asks the API server about who calls it.
	Balances, Asks bool
	// LeaseName is what the leader's Lease is called, LeaseNamespace where it is; Lease is nil where there is none, and
	// where LeaseErr is set. LeaseListed says that it was read with others: it is not asked for again.
	LeaseName, LeaseNamespace string
	Lease                     *coordinationv1.Lease
	LeaseErr                  error
	LeaseListed               bool
	// Renewed is when a renewal of it was seen, by this machine's clock. Zero: the holder's clock is trusted.
	Renewed time.Time
	// Logs are the last lines of the manager's pods by name, cleaned.
	Logs map[string][]string
	// Reviews are the API server's answers to what the manager may do.
	Reviews []Review
	// Heartbeats are the Leases of kubelets, Answers what they say.
	Heartbeats []coordinationv1.Lease
	Answers
	// Alive are kubelets that have told something else when they were asked.
	Alive map[string]bool
	// Networks are the DaemonSets that bring CNI plugins, as far as these were asked for.
	Networks []PodNetwork
	// Recorded says that ccmadm has a record of the cluster: what it has made there it makes again.
	Recorded bool
	// Unmanaged says that nothing of external cloud mode was seen beside Nodes: no record of ccmadm's, no manager, no
	// Lease of one.
	Unmanaged bool

	// every says that Nodes are all that there are.
	every bool
}

// Judge says how far nodes have come by these facts, all machines if none are named, and what keeps them. It reads
// nothing else.
func Judge(f *Facts, names []string) *Report {
	r := &Report{Nodes: f.Statuses(names), Leader: f.Leader()}
	e := f.evidence()
	explain(e, finder(f.Nodes), r.Nodes)
	judgeHeartbeats(r.Nodes, f)
	if !e.unmanaged {
		judgeFlags(r.Nodes, f.Flags)
	}
	if len(r.Nodes) == 0 {
		r.Findings = append(r.Findings, finding.NoNodes.New("", "there is no node at all"))
	}
	if !e.led() {
		r.addLeaderless(e)
	}
	return r
}

// Statuses says how far nodes have come, all of them if none are named: all that are machines. Causes are left to [Judge].
func (f *Facts) Statuses(names []string) []Status {
	if len(names) == 0 {
		names = machines(f.Nodes)
	}
	find, leader := finder(f.Nodes), f.leader()
	var list []Status
	for _, name := range names {
		list = append(list, StatusOf(name, find(name), leader.held(f.Now), f.Now))
	}
	return list
}

// Led reports whether there is a leader, with the Lease or without.
func (f *Facts) Led() bool {
	l := f.leader()
	return l.held(f.Now)
}

// Leader is the Lease's holder, or a ready pod that asks for no Lease. Empty where there is no leader.
func (f *Facts) Leader() string {
	l := f.leader()
	if !l.held(f.Now) {
		return ""
	}
	return l.who()
}

// LeaseAge is for how long the Lease has not been renewed.
func (f *Facts) LeaseAge() time.Duration {
	l := f.leader()
	return l.age(f.Now)
}

func (f *Facts) keep(l leadership) {
	f.LeaseNamespace, f.LeaseName, f.Lease, f.LeaseErr, f.Renewed = l.namespace, l.name, l.lease, l.err, l.renewed
}

func (f *Facts) leader() leadership {
	l := leadership{namespace: f.LeaseNamespace, name: f.LeaseName, lease: f.Lease, err: f.LeaseErr, renewed: f.Renewed}
	l.elect(f.Pods, f.Now)
	return l
}

// evidence has the leader's pod first: its log tells most. Where the leader has gone, what is to replace its pod says more than one that is
// being deleted, or has ended.
func (f *Facts) evidence() *evidence {
	e := &evidence{
		pods: slices.Clone(f.Pods), podsErr: f.PodsErr, leader: f.leader(), logs: f.Logs, flags: f.Flags, nodes: f.Nodes,
		besides: besides(f.Balances, f.Asks), networks: f.Networks, recorded: f.Recorded,
		workload: f.Workload, notMade: f.NotMade, events: f.Events,
		unmanaged: f.notExternal(), left: f.notExternal() && len(f.Flags) >= len(f.Nodes), now: f.Now,
	}
	place := func(p corev1.Pod) int {
		switch {
		case LeftOver(&p):
			return 3
		case p.DeletionTimestamp != nil && !e.led():
			return 2
		case e.leads(&p):
			return 0
		}
		return 1
	}
	slices.SortStableFunc(e.pods, func(a, b corev1.Pod) int { return place(a) - place(b) })
	e.denied = e.deniedBy(f.Reviews)
	return e
}

// notExternal says that neither a Node nor a kubelet is in external cloud mode, nor is there a manager for them.
func (f *Facts) notExternal() bool {
	tainted := slices.ContainsFunc(f.Nodes, func(n corev1.Node) bool { return IsTainted(&n) })
	return f.Unmanaged && !tainted && !slices.Contains(slices.Collect(maps.Values(f.Flags)), "external")
}

// AskLease reads the leader's Lease, and where clocks make it doubtful, looks at it for long enough to see a renewal.
func (f *Facts) AskLease(ctx context.Context, c kubernetes.Interface) {
	l := leadership{namespace: f.LeaseNamespace, name: cmp.Or(f.LeaseName, v1alpha1.LeaseName), lease: f.Lease}
	if !f.LeaseListed {
		l.lease, l.err = l.get(ctx, c)
	}
	l.awaitRenewal(ctx, c)
	f.keep(l)
}

// answered tells whether a kubelet has just done so, through the API server.
func (f *Facts) answered(node string) bool {
	_, told := f.Flags[node]
	return told || f.Alive[node]
}

// Silent finds the kubelets that have stopped renewing their Lease and whose Node waits for something else, too: what
// that is explains no silence.
func (f *Facts) Silent(statuses []Status) []finding.Finding {
	var list []finding.Finding
	h := heartbeatsOf(f.Heartbeats, f.Now)
	for _, s := range statuses {
		if s.Cause == nil || s.State == Absent || s.Cause.ID == finding.KubeletSilent || s.Cause.ID == finding.MachineOff {
			continue
		}
		if quiet := h.behind(s.Node); quiet > 0 && !f.answered(s.Node) {
			list = append(list, silent(s, "its kubelet has not renewed its Lease for "+quiet.String()))
		}
	}
	return list
}

// Lacks names what the API server says that the manager may not do, be a Node waiting for it or not; nil where it may
// do all. What no Node can be initialized without is an error. A Lease that is held need not be made.
func (f *Facts) Lacks() *finding.Finding {
	var missing []permission
	severity := finding.SeverityWarning
	leader := f.leader()
	for _, p := range answeredNo(f.Reviews, &leader) {
		if p.resource == "leases" && p.verb == "create" && leader.held(f.Now) {
			continue
		}
		if slices.Contains(vital(&leader), p) {
			severity = finding.SeverityError
		}
		missing = append(missing, p)
	}
	if len(missing) == 0 {
		return nil
	}
	cause := f.evidence().missingCause(missing)
	cause.Severity = severity
	return cause
}
