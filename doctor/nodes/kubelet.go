package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"
	nodeutil "k8s.io/component-helpers/node/util"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

func notReady(s Status, node *corev1.Node) finding.Finding {
	next := "kubectl describe node " + s.Node
	_, c := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady)
	switch {
	case IsShutDown(node):
		cause := finding.MachineOff.New("", "the cloud reports that its machine is switched off (taint "+v1alpha1.ShutdownTaint+")")
		cause.Next = next
		return cause
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
	cause := finding.NotReady.New("", "the kubelet reports: "+Shorten(c.Message))
	cause.Next = next
	if strings.Contains(c.Message, "cni") {
		cause.Do, cause.Next = "install a CNI plugin", ""
	}
	return cause
}

// IsShutDown tells whether a manager has seen the machine switched off.
func IsShutDown(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.ShutdownTaint })
}

func silent(s Status, message string) finding.Finding {
	cause := finding.KubeletSilent.New("Node/"+s.Node, message)
	cause.Next = "on " + s.Node + ": systemctl status kubelet; journalctl -u kubelet --no-pager -n 50"
	return cause
}

const (
	// heartbeat is for how long a kubelet may send no heartbeat: the default of its nodeLeaseDurationSeconds.
	heartbeat = 40 * time.Second
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

// judgeHeartbeats finds the kubelets that have stopped renewing their Lease though their Node is still called Ready:
// for up to 50 seconds it is, and for ever where no kube-controller-manager runs.
func judgeHeartbeats(statuses []Status, leases []coordinationv1.Lease, now time.Time) {
	behind := behindOthers(leases, now)
	for i, s := range statuses {
		if s.Cause != nil || s.State != Ready {
			continue
		}
		if quiet := behind(s.Node); quiet > 0 {
			cause := silent(s, "the Node is Ready, and its kubelet has not renewed its Lease for "+quiet.String())
			statuses[i].Cause = &cause
		}
	}
}

// behindOthers says for how long a Node's kubelet has been silent; 0 where it is not, or nothing is known of it.
func behindOthers(leases []coordinationv1.Lease, now time.Time) func(node string) time.Duration {
	renewed := map[string]time.Time{}
	var newest time.Time
	for i := range leases {
		last := heard(&leases[i])
		renewed[leases[i].Name] = last
		if last.After(newest) {
			newest = last
		}
	}
	recent := recently(leases, now)
	// By a clock of ours that is ahead all of them would be silent. Where they are, conditions of the Nodes say it.
	ours := now.Sub(newest) <= heartbeat+clockApart
	return func(node string) time.Duration {
		last := renewed[node]
		if last.IsZero() {
			return 0
		}
		behind := recent.Sub(last)
		if age := now.Sub(last); ours && age > heartbeat+clockApart {
			behind = age
		}
		if behind <= heartbeat {
			return 0
		}
		return behind.Round(time.Second)
	}
}

// recently is when kubelets have renewed their Leases. Where the API server does not tell, a machine writes its own
// time, which may be wrong, so it is what most of them say. Where there are two, our clock decides between them.
func recently(leases []coordinationv1.Lease, now time.Time) time.Time {
	var said []time.Time
	for i := range leases {
		if last := heard(&leases[i]); !last.IsZero() {
			said = append(said, last)
		}
	}
	if len(said) < 2 {
		return time.Time{}
	}
	said = append(said, now)
	slices.SortFunc(said, time.Time.Compare)
	return said[len(said)/2]
}

const (
	// flagsSince is the minor version from which on a kubelet tells its flags, without a feature gate.
	flagsSince = 36
	// flagsMost bounds how many kubelets are asked.
	flagsMost = 200
	// flagsTimeout is for all of them together.
	flagsTimeout = 3 * time.Second
)

// AskFlags asks kubelets for their --cloud-provider, by name of the node: those of nodes that no manager will initialize,
// and of those that are Ready. Kubelets that do not tell, or cannot be asked, are left out.
func AskFlags(ctx context.Context, c kubernetes.Interface, statuses []Status) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, flagsTimeout)
	defer cancel()
	var asked []string
	for _, s := range statuses {
		v, err := version.ParseGeneric(s.Version)
		if s.State != Ready && s.State != Registered || err != nil || v.Minor() < flagsSince || len(asked) == flagsMost {
			continue
		}
		asked = append(asked, s.Node)
	}
	flags := map[string]string{}
	told := AskEach(ctx, asked, func(ctx context.Context, node string) *string { return cloudProviderFlag(ctx, c, node) })
	for i, mode := range told {
		if mode != nil {
			flags[asked[i]] = *mode
		}
	}
	return flags
}

// judgeFlags finds kubelets of initialized nodes that run without --cloud-provider=external. Nothing else shows it:
// provider ID and labels stay.
func judgeFlags(statuses []Status, flags map[string]string) {
	for i, s := range statuses {
		mode, known := flags[s.Node]
		if !known || mode == "external" || s.State != Ready || s.Cause != nil {
			continue
		}
		cause := finding.KubeletNotExternal.New("Node/"+s.Node,
			fmt.Sprintf("the kubelet runs with --cloud-provider=%q, not external", mode))
		cause.Next = "on " + s.Node + ": ccmadm node external"
		statuses[i].Cause = &cause
	}
}

// cloudProviderFlag is nil if the kubelet posts no status it.
func cloudProviderFlag(ctx context.Context, c kubernetes.Interface, node string) *string {
	value, ok := KubeletFlags(ctx, c, node)["cloud-provider"]
	if !ok {
		return nil
	}
	return new(finding.Clean(value))
}

// KubeletFlags asks a kubelet for its flags, defaults among them, through the API server
// (https://kubernetes.io/docs/reference/instrumentation/zpages/#flagz). Nil: it did not tell.
func KubeletFlags(ctx context.Context, c kubernetes.Interface, node string) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, flagsTimeout)
	defer cancel()
	data, err := c.CoreV1().RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").Suffix("flagz").
		SetHeader("Accept", "application/json;v=v1beta1;g=config.k8s.io;as=Flagz").DoRaw(ctx)
	if err != nil {
		return nil
	}
	var page struct {
		Kind  string            `json:"kind"`
		Flags map[string]string `json:"flags"`
	}
	if err := json.Unmarshal(data, &page); err != nil || page.Kind != "Flagz" {
		return nil
	}
	return page.Flags
}

// KubeletGates asks a kubelet for the feature gates of its configuration, files and flags together. Nil: it did not
// tell.
func KubeletGates(ctx context.Context, c kubernetes.Interface, node string) map[string]bool {
	ctx, cancel := context.WithTimeout(ctx, flagsTimeout)
	defer cancel()
	request := c.CoreV1().RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").Suffix("configz")
	data, err := request.DoRaw(ctx)
	if err != nil {
		return nil
	}
	var page struct {
		Config struct {
			FeatureGates map[string]bool `json:"featureGates"`
		} `json:"kubeletconfig"`
	}
	if err := json.Unmarshal(data, &page); err != nil {
		return nil
	}
	return page.Config.FeatureGates
}

// RuntimeIsOld reports whether a container runtime, as containerd://1.7.27 of a Node's status, does not report its cgroup
// driver: containerd before 2.0. Other runtimes, and versions that cannot be read, are not judged.
func RuntimeIsOld(runtime string) bool {
	text, is := strings.CutPrefix(runtime, "containerd://")
	v, err := version.ParseGeneric(text)
	return is && err == nil && v.Major() < 2
}
