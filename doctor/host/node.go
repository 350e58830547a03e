package host

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/ccmadm/ccmadm/doctor/diagnosis"
)

// registered asks the API server for the Node of this machine's kubelet, in its name: it may read its own and no other,
// and is told when there is none. A kubelet whose Node was deleted renews no Lease, and in the cluster nothing tells of
// it.
func (h *looking) registered(ctx context.Context) error {
	if h.young {
		return nil
	}
	client, name, err := h.asKubelet()
	if client == nil || err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	_, err = client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("get Node/%s as its kubelet: %w", name, err)
	}
	h.seen.Registered = &diagnosis.HostNode{Name: name, Missing: err != nil}
	return nil
}

// registersNothing tells of a kubelet that was told to make no Node.
func (h *looking) registersNothing() bool {
	if at := slices.IndexFunc(h.seen.Flags, func(f diagnosis.HostFlag) bool { return f.Name == "register-node" }); at >= 0 {
		return h.seen.Flags[at].Value == "false"
	}
	return !ptr.Deref(h.kubelet.RegisterNode, true)
}

// startedLately compares the time of a start, in microseconds since the machine's, with now.
func (h *looking) startedLately(monotonic string) bool {
	started, err := strconv.ParseInt(monotonic, 10, 64)
	if err != nil {
		return false
	}
	uptime, err := h.Read("/proc/uptime")
	if err != nil {
		return false
	}
	seconds, _, _ := strings.Cut(string(uptime), " ")
	now, err := strconv.ParseFloat(seconds, 64)
	return err == nil && now-float64(started)/1e6 < 30
}
