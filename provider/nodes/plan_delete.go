package nodes

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/provider/inventory"
)

// judge asks the guard, as it will be asked once the inventory has been in use for
// long enough: what only time can tell is taken for granted, what the cluster
// shows is not.
func (p *planner) judge(n *NodePlan, node *corev1.Node, e *inventory.Evidence) {
	policy, bounds := p.status.Inventory.Policy, bounds(p.lifecycle.config)
	e.Age, e.Readings, e.Leading = 0, policy.Absence.MinSnapshots, inventory.MinLeading
	if e.Machine == nil {
		e.MissingIn, e.MissingSince = policy.Absence.MinSnapshots, policy.Absence.MinDuration.Duration
	}
	e.Silent = p.silence(node)
	refusal := inventory.GuardIdentity(policy, bounds, *e)
	switch refusal {
	case finding.NotOurs, finding.NotGone:
		return
	case "":
		if e.Silent < bounds.Silence {
			refusal = finding.StillTalking
		}
	}
	n.Action = Delete
	n.keep(refusal)
}

// keep notes the rule that saves the Node.
func (n *NodePlan) keep(refusal finding.ID) {
	if refusal != "" {
		n.Reason, n.Message = refusal.Kind().Reason, "kept: "+refusal.Kind().Title
	}
}

// silence of the kubelet. While the Node is Ready, upstream does not even ask.
func (p *planner) silence(node *corev1.Node) time.Duration {
	if nodestatus.IsReady(node) {
		return 0
	}
	last := p.Heard[node.Name]
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.LastHeartbeatTime.After(last) {
			last = c.LastHeartbeatTime.Time
		}
	}
	return p.Now.Sub(last)
}

// schedule applies the rules that look at all Nodes: the breaker, and the budget,
// which lets them go one after the other.
func (p *planner) schedule(nodes []NodePlan, gone map[string]inventory.Evidence) {
	policy, config := p.status.Inventory.Policy, p.lifecycle.config
	before := 0
	for i := range nodes {
		n := &nodes[i]
		e, ok := gone[n.Node]
		if !ok {
			continue
		}
		e.Candidates = len(gone)
		if refusal := inventory.Guard(policy, bounds(config), e); refusal != "" {
			n.keep(refusal)
			continue
		}
		delay := config.DeletionDelay.Duration
		if e.Machine == nil {
			delay += policy.Absence.MinDuration.Duration
		}
		delay += time.Duration(before/max(1, policy.DeletionBudget.Max)) * policy.DeletionBudget.Per.Duration
		before++
		n.Earliest = &metav1.Duration{Duration: delay}
		n.Message = fmt.Sprintf("would be announced, and done in %s at the earliest", delay)
		if config.DryRun {
			n.Message = "would be announced; dryRun is set: it would not be done"
		}
	}
}
