package host

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/nodestatus"
)

const (
	// twinTime is longer than a kubelet takes to write its Node's status again after another one has.
	twinTime = 13 * time.Second
	// bootMargin is by how much a machine's clock may have been ahead before it was booted.
	bootMargin = 30 * time.Second
)

// twin looks whether another machine writes the status of this machine's Node in turn with it, as a clone does. Only a Node that
// shows another boot and then this machine's is a sign of it, and only where the first was written after this machine was booted: a kubelet
// that could not write its status until now has left there what it wrote before.
func (h *looking) twin(ctx context.Context) error {
	if h.node == nil || !h.settled || h.seen.Registered.Foreign != "" {
		return nil
	}
	boot, other := h.boots(h.node)
	if !other || !h.writtenSinceBoot(h.node) {
		return nil
	}
	client, name, err := h.asKubelet()
	if client == nil || err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, twinTime)
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err == nil && node.Status.NodeInfo.BootID == boot {
			h.seen.Registered.Twin = finding.Clean(h.describe(h.node))
			return nil
		}
	}
}

// boots is this machine's boot, and whether a Node's status shows another one; without the file nothing is compared.
func (h *looking) boots(node *corev1.Node) (own string, other bool) {
	data, err := h.Read("/proc/sys/kernel/random/boot_id")
	own = strings.TrimSpace(string(data))
	shown := node.Status.NodeInfo.BootID
	return own, err == nil && shown != "" && shown != own
}

// writes tells whether a Node's status is of this machine since its boot, or else which machine has written it, if that one has the Node's
// name and this one another. A machine that was renamed keeps the UUID of its firmware, and so does not look like another one until it can
// write its status again; a clone has a UUID of its own, and the original may be switched off. One with the original's UUID is told by the
// original's Lease: a kubelet renews it each 10 s, and writes a status without changes each 5 minutes only.
func (h *looking) writes(ctx context.Context, client kubernetes.Interface, node *corev1.Node, name string) (thisBoot bool, foreign string) {
	own, other := h.boots(node)
	uuid, shown := h.DMI("product_uuid"), node.Status.NodeInfo.SystemUUID
	otherFirmware := uuid != "" && shown != "" && !strings.EqualFold(uuid, shown)
	if other && name != h.seen.Node && (otherFirmware || h.writtenSinceBoot(node) || h.renewedSinceBoot(ctx, client, name)) {
		foreign = finding.Clean(h.describe(node))
	}
	return own != "" && node.Status.NodeInfo.BootID == own, foreign
}

// writtenSinceBoot tells whether a kubelet has written a Node's status since this machine was booted. The node lifecycle controller, which
// sets Ready to Unknown, leaves the time of its heartbeat.
func (h *looking) writtenSinceBoot(node *corev1.Node) bool {
	at := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	return at >= 0 && h.sinceBoot(node.Status.Conditions[at].LastHeartbeatTime.Time)
}

// renewedSinceBoot tells the same of a Node's Lease. One that cannot be read tells nothing.
func (h *looking) renewedSinceBoot(ctx context.Context, client kubernetes.Interface, node string) bool {
	lease, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, node, metav1.GetOptions{})
	return err == nil && lease.Spec.RenewTime != nil && h.sinceBoot(lease.Spec.RenewTime.Time)
}

func (h *looking) sinceBoot(at time.Time) bool {
	up, err := h.uptime()
	return err == nil && at.After(h.Now().Add(bootMargin-up))
}

// describe is how to find the machine that wrote a Node's status.
func (h *looking) describe(node *corev1.Node) string {
	marks := []string{"boot ID " + node.Status.NodeInfo.BootID, "kernel " + node.Status.NodeInfo.KernelVersion}
	for _, ip := range nodestatus.InternalIPs(node) {
		if !slices.Contains(h.seen.Addresses, ip.String()) {
			marks = append(marks, "address "+ip.String())
		}
	}
	return strings.Join(marks, ", ")
}
