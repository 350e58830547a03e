package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	nodeutil "k8s.io/component-helpers/node/util"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

func notReady(s Status, node *corev1.Node, e *evidence) finding.Finding {
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
		return silent(s, stoppedAt(c.LastHeartbeatTime.Time))
	}
	cause := finding.NotReady.New("", "the kubelet reports: "+Shorten(c.Message))
	cause.Next = next
	if strings.Contains(c.Message, "cni") {
		withoutNetwork(&cause, s.Node, e.networks)
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
	// flagsMost bounds how many kubelets are asked.
	flagsMost = 200
	// flagsTimeout is for all of them together. A kernel takes 3 s to say that a machine on its network is not there.
	flagsTimeout = 4 * time.Second
)

// noAnswer is said of a kubelet that has not answered for as long.
func noAnswer() string { return "no answer in " + flagsTimeout.String() }

// Answers are what kubelets say when they are asked through the API server.
type Answers struct {
	// Flags are the --cloud-provider of those that told it, by Node.
	Flags map[string]string `json:"flags,omitempty"`
	// Unreached says of others, by Node, why the API server got no answer.
	Unreached map[string]string `json:"unreached,omitempty"`
}

// AskKubelets asks kubelets for their --cloud-provider: those of nodes that no manager will initialize, and of those that are Ready, of
// many those first that have renewed their Lease longest ago. Kubelets that do not tell, and what may not be asked, are left out.
func AskKubelets(ctx context.Context, c kubernetes.Interface, statuses []Status, leases []coordinationv1.Lease) Answers {
	var asked []string
	for _, s := range statuses {
		reported := s.Version != "" // a kubelet that has never done so is not there yet
		if reported && (s.State == Ready || s.State == Registered) {
			asked = append(asked, s.Node)
		}
	}
	renewed := map[string]time.Time{}
	for i := range leases {
		renewed[leases[i].Name] = heard(&leases[i])
	}
	slices.SortStableFunc(asked, func(a, b string) int { return renewed[a].Compare(renewed[b]) })
	asked = asked[:min(len(asked), flagsMost)]
	type answer struct {
		flags     map[string]string
		unreached string
	}
	short, cancel := context.WithTimeout(ctx, flagsTimeout)
	defer cancel()
	quick := atomic.Bool{}
	told := AskEach(short, asked, func(ctx context.Context, node string) answer {
		start := time.Now()
		flags, err := askFlags(ctx, c, node)
		if flags != nil && time.Since(start) < flagsTimeout/4 {
			quick.Store(true)
		}
		return answer{flags, unreached(err, time.Since(start))}
	})
	all := Answers{Flags: map[string]string{}, Unreached: map[string]string{}}
	for i, a := range told {
		if mode, ok := a.flags["cloud-provider"]; ok {
			all.Flags[asked[i]] = finding.Clean(mode)
		}
		if a.unreached != "" {
			all.Unreached[asked[i]] = a.unreached
		}
	}
	all.doubt(len(asked), quick.Load())
	all.confirm(ctx, c, leases)
	return all
}

// confirm drops kubelets that may have stopped since they were heard last: one that lives renews its Lease once more. Those that have missed
// a heartbeat already, and those of which no Lease is known, need no confirmation.
func (a *Answers) confirm(ctx context.Context, c kubernetes.Interface, leases []coordinationv1.Lease) {
	h := heartbeatsOf(leases, time.Now())
	pending := map[string]time.Time{} // when they were heard last; zero: that has not been asked
	for node := range a.Unreached {
		if _, known := h.renewed[node]; known && h.missed(node, nil) == 0 && h.behind(node) == 0 {
			pending[node] = time.Time{}
		}
	}
	if len(pending) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, heartbeat/4+late)
	defer cancel()
	_ = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		asked := slices.Collect(maps.Keys(pending))
		for i, last := range AskEach(ctx, asked, func(ctx context.Context, node string) time.Time {
			l, err := c.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, node, metav1.GetOptions{})
			if err != nil {
				return time.Time{}
			}
			return heard(l)
		}) {
			before := pending[asked[i]]
			switch {
			case before.IsZero():
				pending[asked[i]] = last
			case last.After(before):
				delete(pending, asked[i])
			}
		}
		return len(pending) == 0, nil
	})
	for node := range pending {
		delete(a.Unreached, node)
	}
}

// doubt drops what is rather the API server's trouble, or its way to all Nodes: where none of several kubelets answers, and where most do
// not answer in time, nor another one quickly.
func (a *Answers) doubt(asked int, quick bool) {
	hung := 0
	for _, why := range a.Unreached {
		if why == noAnswer() {
			hung++
		}
	}
	if none := len(a.Unreached) == asked && asked > 1; none || hung > 1 && hung > asked/2 && !quick {
		maps.DeleteFunc(a.Unreached, func(_, why string) bool { return none || why == noAnswer() })
	}
}

// unreached is why the API server got no answer from a kubelet, empty where it got one, or was not asked for long.
func unreached(err error, took time.Duration) string {
	if err == nil {
		return ""
	}
	// The words are those of the API server's proxy: k8s.io/apimachinery/pkg/util/proxy. Where a connection is refused the machine is on, and
	// its kubelet may be starting again.
	if _, why, is := strings.Cut(err.Error(), "error trying to reach service: "); is {
		if strings.HasPrefix(why, "dial ") && !strings.HasSuffix(why, "connection refused") {
			return Shorten(finding.Clean(why))
		}
		return ""
	}
	if errors.Is(err, context.DeadlineExceeded) && took > flagsTimeout-flagsTimeout/8 {
		return noAnswer()
	}
	return ""
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

// KubeletFlags asks a kubelet for its flags, defaults among them, through the API server. Nil: it did not tell.
func KubeletFlags(ctx context.Context, c kubernetes.Interface, node string) map[string]string {
	flags, _ := askFlags(ctx, c, node)
	return flags
}

// askFlags asks for a page that kubelets have since 1.36 (https://kubernetes.io/docs/reference/instrumentation/zpages/#flagz).
func askFlags(ctx context.Context, c kubernetes.Interface, node string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, flagsTimeout)
	defer cancel()
	data, err := c.CoreV1().RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").Suffix("flagz").
		SetHeader("Accept", "application/json;v=v1beta1;g=config.k8s.io;as=Flagz").DoRaw(ctx)
	if err != nil {
		var status metav1.Status
		if json.Unmarshal(data, &status) == nil && status.Message != "" { // a client does not read it from a raw answer
			err = fmt.Errorf("%w: %s", err, status.Message)
		}
		return nil, err
	}
	var page struct {
		Kind  string            `json:"kind"`
		Flags map[string]string `json:"flags"`
	}
	if err := json.Unmarshal(data, &page); err != nil || page.Kind != "Flagz" {
		return nil, err
	}
	return page.Flags, nil
}

// KubeletGates asks a kubelet for the feature gates of its configuration, files and flags together, and once more where it
// did not tell.
func KubeletGates(ctx context.Context, c kubernetes.Interface, node string) (map[string]bool, error) {
	gates, err := askGates(ctx, c, node)
	if err != nil {
		gates, err = askGates(ctx, c, node)
	}
	return gates, err
}

func askGates(ctx context.Context, c kubernetes.Interface, node string) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, flagsTimeout)
	defer cancel()
	request := c.CoreV1().RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").Suffix("configz")
	data, err := request.DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	var page struct {
		Config struct {
			FeatureGates map[string]bool `json:"featureGates"`
		} `json:"kubeletconfig"`
	}
	err = json.Unmarshal(data, &page)
	return page.Config.FeatureGates, err
}

// RuntimeIsOld reports whether a container runtime, as containerd://1.7.27 of a Node's status, does not report its cgroup
// driver: containerd before 2.0. Other runtimes, and versions that cannot be read, are not judged.
func RuntimeIsOld(runtime string) bool {
	text, is := strings.CutPrefix(runtime, "containerd://")
	v, err := version.ParseGeneric(text)
	return is && err == nil && v.Major() < 2
}
