// Package unreachable takes the endpoints of a machine that is gone out of Services, some seconds after it went.
// Kubernetes does so when its Node has been silent for 50 seconds, and until then a share of all connections goes to pods
// that do not answer, whoever announces the address.
//
// Start at [Watcher.Run]. ask.go asks machines, machine.go says when one counts as gone, withdraw.go marks its pods.
//
// A machine is gone where two ways to it are silent: it no longer answers by TCP, though it did, and its kubelet has not
// renewed its Lease when it was due. While the API server cannot be asked, nothing is decided, and neither where fewer
// than a half of the machines answer, as it is this process then that is cut off.
//
// Reads: Nodes, through the informer that it is given; of a machine that does not answer, its Lease in kube-node-lease;
// of one that is gone, EndpointSlices.
// Writes: condition Ready of pods that are endpoints on a machine that is gone, as kube-controller-manager does later
// (MarkPodsNotReady, k8s.io/kubernetes/pkg/controller/util/node), and an Event on its Node. A kubelet that is alive after
// all puts its pods right within ten seconds; from the renewal of its Lease on, nothing is taken from it.
// Running it twice: a pod that is not Ready is left alone. Who leads anew knows of no machine that it has answered.
// It will not: touch a Node, delete or evict a pod.
package unreachable

import (
	"context"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

const (
	// interval is the time between two questions to a machine; where there are many, [perSecond] makes it longer.
	interval  = time.Second
	perSecond = 500
	// atOnce is how many are asked at the same time.
	atOnce = 100
)

// Settings are what machines are watched with.
type Settings struct {
	Client   kubernetes.Interface
	Nodes    cache.SharedIndexInformer
	Recorder record.EventRecorder
	// Ask asks a machine whether it is there. nil: by TCP.
	Ask func(ctx context.Context, address netip.Addr) Answer
	Now func() time.Time
}

// Watcher watches the machines of a cluster, from Run on.
type Watcher struct {
	Settings

	machines map[types.UID]*machine
	cutOff   bool
}

// New makes a watcher. It asks nobody anything.
func New(s Settings) *Watcher {
	if s.Ask == nil {
		s.Ask = ask
	}
	return &Watcher{Settings: s, machines: map[types.UID]*machine{}}
}

// Run watches until ctx is done.
func (w *Watcher) Run(ctx context.Context) {
	if !cache.WaitForCacheSync(ctx.Done(), w.Nodes.HasSynced) {
		return
	}
	for {
		begun := w.Now()
		asked := w.round(ctx)
		pause := max(interval, time.Duration(asked)*time.Second/perSecond) - w.Now().Sub(begun)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// round asks every machine once, and sees to those that are gone. It returns how many were asked.
func (w *Watcher) round(ctx context.Context) int {
	nodes := w.ready()
	answers := w.askAll(ctx, nodes)
	var silent []*corev1.Node
	known, there := 0, 0
	for i, node := range nodes {
		m := w.machines[node.UID]
		m.heard(answers[i])
		if !m.answered {
			continue
		}
		known++
		switch answers[i] {
		case Present:
			there++
		case Silent:
			silent = append(silent, node)
		case Unknown:
		}
	}
	if cutOff := 2*there < known; cutOff != w.cutOff {
		w.cutOff = cutOff
		klog.InfoS("Whether most machines answer", "cutOff", cutOff, "answer", there, "of", known)
	}
	if !w.cutOff {
		for _, node := range silent {
			w.see(ctx, node)
		}
	}
	return len(nodes)
}

// ready are the Nodes that Kubernetes has not given up, and what is known of others is forgotten.
func (w *Watcher) ready() []*corev1.Node {
	var nodes []*corev1.Node
	machines := map[types.UID]*machine{}
	for _, object := range w.Nodes.GetStore().List() {
		node, ok := object.(*corev1.Node)
		if !ok || !isReady(node) || !addressOf(node).IsValid() {
			continue
		}
		nodes = append(nodes, node)
		machines[node.UID] = w.machines[node.UID]
		if machines[node.UID] == nil {
			machines[node.UID] = &machine{}
		}
	}
	w.machines = machines
	return nodes
}

func isReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// addressOf is where the machine is asked. What is no address is not looked up: a kubelet may write anything there.
func addressOf(node *corev1.Node) netip.Addr {
	for _, a := range node.Status.Addresses {
		if ip, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
			return ip.Unmap().WithZone("")
		}
	}
	return netip.Addr{}
}

// askAll returns an answer for each Node, in their order.
func (w *Watcher) askAll(ctx context.Context, nodes []*corev1.Node) []Answer {
	answers := make([]Answer, len(nodes))
	tokens := make(chan struct{}, atOnce)
	var asking sync.WaitGroup
	for i, node := range nodes {
		tokens <- struct{}{}
		asking.Go(func() {
			defer func() { <-tokens }()
			answers[i] = w.Ask(ctx, addressOf(node))
		})
	}
	asking.Wait()
	return answers
}

// see looks at a machine that does not answer, and withdraws its endpoints once it is gone.
func (w *Watcher) see(ctx context.Context, node *corev1.Node) {
	m := w.machines[node.UID]
	if m.withdrawn {
		return
	}
	lease, err := w.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, node.Name, metav1.GetOptions{})
	if err != nil {
		m.lease = "" // it cannot be asked, or does not say: what was seen of it before does not count
		klog.V(2).InfoS("A machine does not answer, and its kubelet's Lease cannot be read", "node", node.Name, "err", err)
		return
	}
	if !m.gone(lease, w.Now()) {
		return
	}
	count, err := w.withdraw(ctx, node.Name)
	if err != nil {
		klog.ErrorS(err, "A machine is gone, and its endpoints are not all withdrawn", "node", node.Name)
		return // until the next round
	}
	m.withdrawn = true
	klog.InfoS("A machine is gone, and its endpoints are withdrawn", "node", node.Name, "pods", count)
	w.Recorder.Eventf(node, corev1.EventTypeWarning, "EndpointsWithdrawn",
		"it does not answer at %s, nor does its kubelet renew its Lease: %d pods are not Ready, so that Services send "+
			"nothing there", addressOf(node), count)
}
