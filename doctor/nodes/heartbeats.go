package nodes

import (
	"context"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	nodeutil "k8s.io/component-helpers/node/util"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/nodestatus"
)

const (
	// heartbeat is for how long a kubelet may send no heartbeat: the default of its nodeLeaseDurationSeconds.
	heartbeat = 40 * time.Second
	// late is by how much one may be late that comes after a quarter of a Lease's duration.
	late = time.Second
	// clockApart is by how much clocks may differ where there is no other kubelet to compare with.
	clockApart = 2 * time.Minute
)

// listHeartbeats returns the kubelets' Leases; none without permission: a kubelet may not list them.
func listHeartbeats(ctx context.Context, c kubernetes.Interface) []coordinationv1.Lease {
	list, err := c.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil // the Node's condition has the last word then
	}
	return list.Items
}

// judgeHeartbeats finds the kubelets that have stopped renewing their Lease though their Node is still called Ready: for up to 50
// seconds it is, and for ever where no kube-controller-manager runs. One that does not answer the API server has stopped as soon as a
// heartbeat is missed. It says since when, too, for Nodes that are not called Ready: a condition has the time of its last change.
func judgeHeartbeats(statuses []Status, f *Facts) {
	h, unreached := heartbeatsOf(f.Heartbeats, f.Now), f.Unreached
	find := finder(f.Nodes)
	for i, s := range statuses {
		why, last := unreached[s.Node], h.renewed[s.Node]
		behind, missed := h.behind(s.Node), h.missed(s.Node, find(s.Node))
		if f.answered(s.Node) {
			behind = 0 // the API server that took its renewal has another time
		}
		message := ""
		switch {
		case s.Cause != nil && s.Cause.ID == finding.KubeletSilent && !last.IsZero():
			message = stoppedAt(last)
		case s.Cause != nil || s.State != Ready && !nodestatus.IsReady(find(s.Node)):
		case behind > 0:
			message = "the Node is Ready, and its kubelet has not renewed its Lease for " + behind.String()
		case why != "" && missed > 0:
			message = fmt.Sprintf("the Node is Ready, its kubelet has sent no heartbeat for %s, and does not answer the API server: %s", missed, why)
		}
		if message == "" {
			if why != "" && !last.IsZero() && s.Cause == nil && (s.State == Ready || nodestatus.IsReady(find(s.Node))) {
				statuses[i].Cause = unreachedOnly(s, why, f.Nodes)
			}
			continue
		}
		cause := silent(s, message)
		if why != "" {
			cause.Do = "look whether the machine is on and on its network, then check the kubelet's log there"
		}
		statuses[i].Cause = &cause
	}
}

// unreachedOnly is about a kubelet that reports, and that API servers do not reach.
func unreachedOnly(s Status, why string, all []corev1.Node) *finding.Finding {
	cause := finding.KubeletUnreached.New("Node/"+s.Node, "its kubelet renews its Lease, and the API server does not reach it: "+why)
	if why == noAnswer() { // a packet that was dropped, or a kubelet that is slow
		cause.Severity = finding.SeverityWarning
	}
	from := "a control plane"
	if i := slices.IndexFunc(all, func(n corev1.Node) bool { return IsControlPlane(&n) && n.Name != s.Node }); i >= 0 {
		from = all[i].Name
	}
	address := s.Node
	if len(s.InternalIPs) > 0 {
		address = s.InternalIPs[0]
	}
	cause.Next = "on " + from + ": nc -vz -w 3 " + address + " 10250"
	return &cause
}

// stoppedAt says when a kubelet was heard last.
func stoppedAt(last time.Time) string {
	return "the kubelet has stopped posting its status, last at " + last.UTC().Format(time.RFC3339)
}

// heartbeats are when kubelets were heard, by their Leases.
type heartbeats struct {
	renewed map[string]time.Time
	// every is how often a kubelet renews its Lease.
	every       map[string]time.Duration
	newest, now time.Time
	// recent is when kubelets have renewed their Leases. Where the API server does not tell, a machine writes its own time, which may
	// be wrong, so it is what most of them say. Where there are two, our clock decides between them.
	recent time.Time
}

func heartbeatsOf(leases []coordinationv1.Lease, now time.Time) heartbeats {
	h := heartbeats{renewed: map[string]time.Time{}, every: map[string]time.Duration{}, now: now}
	var said []time.Time
	for i := range leases {
		last := heard(&leases[i])
		if last.IsZero() {
			continue
		}
		h.renewed[leases[i].Name] = last
		if seconds := leases[i].Spec.LeaseDurationSeconds; seconds != nil {
			h.every[leases[i].Name] = time.Duration(*seconds) * time.Second / 4
		}
		said = append(said, last)
		if last.After(h.newest) {
			h.newest = last
		}
	}
	if len(said) > 1 {
		said = append(said, now)
		slices.SortFunc(said, time.Time.Compare)
		h.recent = said[len(said)/2]
	}
	return h
}

// behind is for how long a Node's kubelet has not renewed its Lease; 0 where that is not long, or nothing is known of it.
func (h *heartbeats) behind(node string) time.Duration {
	last, known := h.renewed[node]
	if !known {
		return 0
	}
	behind := h.recent.Sub(last)
	patience := max(heartbeat, h.every[node]+heartbeat/4) // kubelets whose Leases last longer renew them as much less often
	// By a clock of ours that is ahead none of them would have renewed it. Where none has, conditions of the Nodes say it.
	ours := h.now.Sub(h.newest) <= patience+clockApart
	if age := h.now.Sub(last); ours && age > patience+clockApart {
		behind = age
	}
	if behind <= patience {
		return 0
	}
	return behind.Round(time.Second)
}

// missed is for how long a kubelet was not heard that has missed a heartbeat; 0: it has missed none, or that is not known. The newest
// heartbeat of all says what time it is: our clock may differ, and where few kubelets are left adds at most half of the time between two.
// Before its first Lease, some 10 s after it has registered, a kubelet's status is a heartbeat.
func (h *heartbeats) missed(name string, node *corev1.Node) time.Duration {
	last, known := h.renewed[name]
	if !known && node != nil && h.newest.Sub(node.CreationTimestamp.Time) < time.Minute {
		if _, c := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady); c != nil {
			last, known = c.LastHeartbeatTime.Time, true
		}
	}
	every, told := h.every[name]
	if !told {
		every = heartbeat / 4
	}
	passed := min(max(h.now.Sub(h.newest), 0), heartbeat/8)
	if quiet := h.newest.Sub(last) + passed; known && quiet > every+late {
		return quiet.Round(time.Second)
	}
	return 0
}
