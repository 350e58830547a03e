package nodes

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Report is what is known of nodes at one moment, and of what all of them depend on.
type Report struct {
	// Nodes are in the order asked for, or by name.
	Nodes []Status
	// Findings are what is wrong whatever the nodes' states are: nobody leads, there is no node.
	Findings []finding.Finding
}

// Observe looks at nodes once, at all if none are named, and finds the cause for each that is not Ready, or whose
// kubelet is not well. leaseName is that of the leader's Lease by the cluster's record. Empty: there is no record that
// one may see, and it is v1alpha1.LeaseName. The error says what could not be asked.
func Observe(ctx context.Context, c kubernetes.Interface, leaseName string, names []string) (*Report, error) {
	nodes, err := getNodes(ctx, c, names)
	if err != nil {
		return nil, err
	}
	f := &Facts{Nodes: nodes, Recorded: leaseName != ""}
	f.AskLease(ctx, c, v1alpha1.Namespace, leaseName)
	f.Now = time.Now()
	statuses, leader := f.statuses(names), f.leader()
	if !leader.held(f.Now) || len(below(statuses, Ready)) > 0 {
		f.askManager(ctx, c)
	}
	f.Heartbeats = listHeartbeats(ctx, c)
	f.Flags = AskFlags(ctx, c, statuses)
	return Judge(f, names), nil
}

// addLeaderless says that nobody leads, unless that is what a node waits for. A cluster with neither Lease nor pod may
// have a manager under names of its own: that is a warning.
func (r *Report) addLeaderless(e *evidence) {
	lease := e.leader.object()
	cause := e.managerCause()
	switch {
	case e.leader.err != nil:
		found := finding.LeaseUnknown.New(lease, e.leader.leaderless(e.now))
		cause = &found
	case cause == nil || cause.ID == finding.NotVisible || cause.ID == finding.NoPod && e.leader.lease != nil:
		found := finding.LeaderSilent.New(lease, e.leader.leaderless(e.now))
		found.Next = e.logsCommand()
		cause = &found
	case cause.ID == finding.NoPod:
		cause.Severity = finding.SeverityWarning
	case cause.ID == finding.NoLeader || e.leader.unelected:
	default:
		cause.Message += "; " + e.leader.leaderless(e.now)
	}
	cause.Object, cause.Message = lease, finding.Clean(cause.Message)
	for _, s := range r.Nodes {
		if s.Cause != nil && (s.Cause.ID == cause.ID || s.Cause.ID == finding.NoPod) {
			return
		}
	}
	r.Findings = append(r.Findings, *cause)
}

// Failing are the nodes below a state, and those whose kubelet is not well.
func (r *Report) Failing(until State) []Status {
	var list []Status
	for _, s := range r.Nodes {
		kubelet := s.Cause != nil && (s.Cause.ID == finding.KubeletSilent || s.Cause.ID == finding.KubeletNotExternal)
		if s.State < until || kubelet {
			list = append(list, s)
		}
	}
	return list
}

func finder(nodes []corev1.Node) func(string) *corev1.Node {
	byName := map[string]*corev1.Node{}
	for i := range nodes {
		byName[nodes[i].Name] = &nodes[i]
	}
	return func(name string) *corev1.Node { return byName[name] }
}

func getNodes(ctx context.Context, c kubernetes.Interface, names []string) ([]corev1.Node, error) {
	if len(names) == 0 {
		list, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list nodes: %w", err)
		}
		return list.Items, nil
	}
	var nodes []corev1.Node
	for _, name := range names {
		node, err := c.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("get node %s: %w", name, err)
		}
		nodes = append(nodes, *node)
	}
	return nodes, nil
}
