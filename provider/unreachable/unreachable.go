// Package unreachable takes the endpoints of a machine that is gone out of Services, some seconds after it went.
// Kubernetes does so when its Node has been silent for 50 seconds, and until then a share of all connections goes to
// pods that do not answer, whoever announces the address.
//
// Start at [Watcher.Run]. ask.go asks machines, leases.go looks at their kubelets' Leases, machine.go says when one
// counts as gone, endpoints.go which of its pods others can do without, withdraw.go marks these.
//
// A machine is gone where two ways to it are silent: it no longer answers by TCP, though it did, and its kubelet has
// not renewed its Lease when it was due, as most others have. Nothing is decided while the API server cannot be asked,
// nor where fewer than a half of the other machines answer: then it is this process that is cut off. A pod stays where
// no other one of its Service is on a machine that answers: there is nowhere else to send.
//
// Reads: Nodes, through the informer that it is given; while a machine does not answer, the Leases in kube-node-lease;
// when one is gone, EndpointSlices. Writes: condition Ready of pods that are endpoints on a machine that is gone, as
// kube-controller-manager does later (MarkPodsNotReady, k8s.io/kubernetes/pkg/controller/util/node), and an Event on
// its Node. A kubelet that is alive after all puts its pods right within ten seconds. Running it twice: a pod that is
// not Ready is left alone. Who leads anew knows of no machine that it has answered. It will not: touch a Node, delete
// or evict a pod.
package unreachable

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/provider/objects"
)

const (
	// interval is the time between two questions to a machine; where there are many, [perSecond] makes it longer.
	interval  = time.Second
	perSecond = 500
	// tellAfter is how many questions a machine may leave unanswered from the start until it is said, once.
	tellAfter = 60
)

// Settings are what machines are watched with.
type Settings struct {
	Client   kubernetes.Interface
	Nodes    cache.SharedIndexInformer
	Recorder record.EventRecorder
	Now      func() time.Time
	// Ask asks a machine whether it is there. nil: by TCP.
	Ask func(ctx context.Context, address netip.Addr) Answer
	// Own are the addresses of the machine that this process runs on, which always answers. nil: as its interfaces say.
	Own func() map[netip.Addr]bool
}

// Watcher watches the machines of a cluster, from Run on.
type Watcher struct {
	Settings

	machines map[types.UID]*machine
	leases   leases
	cutOff   bool
}

// New makes a watcher. It asks nobody anything.
func New(s Settings) *Watcher {
	if s.Ask == nil {
		s.Ask = ask
	}
	if s.Own == nil {
		s.Own = own
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

// round asks every other machine once, and sees to those that are gone. It returns how many were asked.
func (w *Watcher) round(ctx context.Context) int {
	nodes, here := w.others()
	known, answering := 0, map[string]bool{}
	var silent []*corev1.Node
	for i, answer := range w.askAll(ctx, nodes) {
		m := w.machines[nodes[i].UID]
		m.heard(answer)
		if m.missed == tellAfter && !m.answered {
			klog.InfoS("A machine cannot be watched: it has never answered", "node", nodes[i].Name,
				"address", addressOf(nodes[i]))
		}
		if !m.answered {
			continue
		}
		known++
		switch answer {
		case Present:
			answering[nodes[i].Name] = true
		case Silent:
			if !m.alive && !m.withdrawn {
				silent = append(silent, nodes[i])
			}
		case Unknown:
		}
	}
	if cutOff := 2*len(answering) < known; cutOff != w.cutOff {
		w.cutOff = cutOff
		klog.InfoS("Whether most other machines answer", "cutOff", cutOff, "answer", len(answering), "of", known)
	}
	if len(silent) == 0 || w.cutOff {
		w.beginAnew()
		return len(nodes)
	}
	w.see(ctx, silent, answering, here)
	return len(nodes)
}

// beginAnew is for a time in which no kubelet may have been able to renew its Lease: what was seen of them before it
// does not count.
func (w *Watcher) beginAnew() {
	w.leases = leases{}
	for _, m := range w.machines {
		m.lease = ""
	}
}

// see looks at machines that do not answer, and withdraws the endpoints of those that are gone.
func (w *Watcher) see(ctx context.Context, silent []*corev1.Node, answering, here map[string]bool) {
	// What a kubelet has not done until the question began, it has not: an answer that takes long says no more.
	asked := w.Now()
	if err := w.leases.look(ctx, w.Client, w.Now); err != nil {
		klog.V(2).InfoS("Machines do not answer, and Leases cannot be read", "machines", len(silent), "err", err)
		w.beginAnew()
		return
	}
	var suspects []*corev1.Node
	for _, node := range silent {
		m := w.machines[node.UID]
		if m.gone(w.leases.of(node.Name), asked, w.Now()) {
			suspects = append(suspects, node)
		}
		if m.alive {
			klog.InfoS("A machine does not answer, and its kubelet renews its Lease", "node", node.Name,
				"address", addressOf(node))
		}
	}
	if len(suspects) == 0 {
		return
	}
	if !w.leases.mostRenew(answering, asked) {
		w.beginAnew()
		return
	}
	var gone []*corev1.Node
	for i, answer := range w.askAll(ctx, suspects) { // the API server may have taken long
		if answer == Silent {
			gone = append(gone, suspects[i])
		}
	}
	if len(gone) > 0 {
		maps.Copy(answering, here)
		w.withdraw(ctx, gone, answering)
	}
}

// others are the Nodes on other machines that Kubernetes has not given up; what is known of any other Node is
// forgotten. The names are of those on this machine.
func (w *Watcher) others() (nodes []*corev1.Node, here map[string]bool) {
	machines, own := map[types.UID]*machine{}, w.Own()
	here = map[string]bool{}
	for _, node := range objects.List[*corev1.Node](w.Nodes.GetStore()) {
		if !nodestatus.IsReady(node) || !addressOf(node).IsValid() {
			continue
		}
		if own[addressOf(node)] {
			here[node.Name] = true
			continue
		}
		nodes = append(nodes, node)
		machines[node.UID] = w.machines[node.UID]
		if machines[node.UID] == nil {
			machines[node.UID] = &machine{}
		}
	}
	w.machines = machines
	return nodes, here
}

// addressOf is where the machine is asked. What is no address is not looked up: a kubelet may write anything there.
func addressOf(node *corev1.Node) netip.Addr {
	if list := nodestatus.InternalIPs(node); len(list) > 0 {
		return list[0]
	}
	return netip.Addr{}
}

// own are the addresses of this machine's interfaces. In a pod's own network they are none of a Node. Those that
// kube-proxy binds in mode ipvs are of Services.
func own() map[netip.Addr]bool {
	addresses := map[netip.Addr]bool{}
	links, _ := net.Interfaces() // none: then this machine is asked like any other
	for _, link := range links {
		if link.Name == "kube-ipvs0" {
			continue
		}
		of, _ := link.Addrs()
		for _, a := range of {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil {
				addresses[prefix.Addr().Unmap()] = true
			}
		}
	}
	return addresses
}
