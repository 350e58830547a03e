package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/finding"
)

func notReady(s Status, node *corev1.Node) finding.Finding {
	next := "kubectl describe node " + s.Node
	c := readyCondition(node)
	switch {
	case c == nil:
		cause := finding.NotReady.New("", "the kubelet has not reported yet")
		cause.Next = next
		return cause
	case c.Status == corev1.ConditionUnknown:
		return silent(
			s,
			"the kubelet has stopped posting its status, last at "+c.LastHeartbeatTime.UTC().Format(time.RFC3339),
		)
	}
	cause := finding.NotReady.New("", "the kubelet says: "+Shorten(c.Message))
	cause.Next = next
	if strings.Contains(c.Message, "cni") {
		cause.Next = "install a CNI plugin"
	}
	return cause
}

func silent(s Status, message string) finding.Finding {
	cause := finding.KubeletSilent.New("Node/"+s.Node, message)
	cause.Next = "on " + s.Node + ": systemctl status kubelet; journalctl -u kubelet --no-pager -n 50"
	return cause
}

const (
	// heartbeat is for how long a kubelet may be silent: the default of its nodeLeaseDurationSeconds.
	heartbeat = 40 * time.Second
	// clockApart is by how much clocks may differ where there is no other kubelet to compare with.
	clockApart = 2 * time.Minute
)

// checkHeartbeats finds the kubelets that have stopped renewing their Lease though their Node is still called Ready:
// for up to 50 seconds it is, and for ever where no kube-controller-manager runs. Without permission it says nothing.
func checkHeartbeats(ctx context.Context, c kubernetes.Interface, statuses []Status, now time.Time) {
	list, err := c.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, metav1.ListOptions{})
	if err != nil {
		return // a kubelet may not list them; the Node's condition has the last word then
	}
	byNode := map[string]*coordinationv1.Lease{}
	var newest time.Time
	for i := range list.Items {
		l := &list.Items[i]
		byNode[l.Name] = l
		if renewed := renewTime(l); renewed.After(newest) {
			newest = renewed
		}
	}
	for i, s := range statuses {
		l := byNode[s.Node]
		if s.Cause != nil || s.State != Ready || l == nil || renewTime(l).IsZero() {
			continue
		}
		behind := newest.Sub(renewTime(l))
		if age := now.Sub(renewTime(l)); age > heartbeat+clockApart {
			behind = age
		}
		if behind > heartbeat {
			cause := silent(
				s,
				fmt.Sprintf(
					"the Node is called Ready, and its kubelet has not renewed its Lease for %s",
					behind.Round(time.Second),
				),
			)
			statuses[i].Cause = &cause
		}
	}
}

const (
	// flagsSince is the minor version from which on a kubelet tells its flags, without a feature gate.
	flagsSince = 36
	// flagsMost bounds how many kubelets are asked, flagsAtOnce how many at a time.
	flagsMost, flagsAtOnce = 200, 20
	// flagsTimeout is for all of them together.
	flagsTimeout = 3 * time.Second
)

// checkFlags finds kubelets of initialized nodes that run without --cloud-provider=external, by asking them. Nothing
// else shows it: provider ID and labels stay. Kubelets that do not tell, or cannot be asked, are left out.
func checkFlags(ctx context.Context, c kubernetes.Interface, statuses []Status) {
	ctx, cancel := context.WithTimeout(ctx, flagsTimeout)
	defer cancel()
	slots := make(chan struct{}, flagsAtOnce)
	var wg sync.WaitGroup
	asked := 0
	for i, s := range statuses {
		v, err := version.ParseGeneric(s.Version)
		if s.State != Ready || s.Cause != nil || err != nil || v.Minor() < flagsSince || asked == flagsMost {
			continue
		}
		asked++
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if mode, ok := cloudProviderFlag(ctx, c, s.Node); ok && mode != "external" {
				cause := finding.KubeletNotExternal.New(
					"Node/"+s.Node,
					fmt.Sprintf("the kubelet runs with --cloud-provider=%q, not external", mode),
				)
				cause.Next = "on " + s.Node + ": ccmadm join phase kubelet, then: systemctl restart kubelet"
				statuses[i].Cause = &cause
			}
		})
	}
	wg.Wait()
}

func cloudProviderFlag(ctx context.Context, c kubernetes.Interface, node string) (value string, ok bool) {
	flags, _ := KubeletFlags(ctx, c, node)
	value, ok = flags["cloud-provider"]
	return finding.Clean(value), ok
}

// KubeletFlags asks a kubelet for its flags, through the API server
// (https://kubernetes.io/docs/reference/instrumentation/zpages/#flagz). False: it does not tell, or cannot be asked.
func KubeletFlags(ctx context.Context, c kubernetes.Interface, node string) (flags map[string]string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, flagsTimeout)
	defer cancel()
	data, err := c.CoreV1().RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").Suffix("flagz").
		SetHeader("Accept", "application/json;v=v1beta1;g=config.k8s.io;as=Flagz").DoRaw(ctx)
	if err != nil {
		return nil, false
	}
	var page struct {
		Kind  string            `json:"kind"`
		Flags map[string]string `json:"flags"`
	}
	if err := json.Unmarshal(data, &page); err != nil || page.Kind != "Flagz" {
		return nil, false
	}
	return page.Flags, true
}
