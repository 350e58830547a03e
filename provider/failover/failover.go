// Package failover takes the endpoints of a machine that is gone out of Services, some seconds after it went.
// Kubernetes does so when its Node has posted no status for 50 seconds, and until then a share of all connections goes to
// pods that do not answer, whichever Node announces the address.
//
// Start at [NodeProber.Run]. ask.go asks machines, leases.go looks at their kubelets' Leases, machine.go says when one
// counts as gone, endpoints.go which of its pods others can do without, withdraw.go marks these.
//
// A machine has failed if two signals are missing: it no longer answers by TCP, though it did, and its kubelet has
// not renewed its Lease when it was due, as most others have. Nothing is decided while the API server cannot be asked,
// nor where fewer than a half of the other machines answer: then it is this process that is cut off. A pod stays where
// no other one of its Service is on a machine that answers: there is nowhere else to send.
//
// Reads: Nodes and EndpointSlices, from the caches that it is given; while a machine does not answer, the Leases in
// kube-node-lease. Writes: condition Ready of pods that are endpoints on a machine that is gone, as
// kube-controller-manager does later (MarkPodsNotReady, k8s.io/kubernetes/pkg/controller/util/node), and an Event on
// its Node. A kubelet that is alive after all puts its pods right within ten seconds. Running it twice: a pod that is
// not Ready is left alone. A new leader does not know yet which machines have ever answered. It will not: touch a Node, delete
// or evict a pod.
package failover

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
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

// Settings are what machines are probed with.
type Settings struct {
	Client   kubernetes.Interface
	Nodes    cache.SharedIndexInformer
	Recorder record.EventRecorder
	Now      func() time.Time
	// Slices are the EndpointSlices of the cluster, from a cache; false: it has not synced yet.
	Slices func() ([]*discoveryv1.EndpointSlice, bool)
	// Ask asks a machine whether it is there. nil: by TCP.
	Ask func(ctx context.Context, address netip.Addr) Answer
	// Own are the addresses of the machine that this process runs on, which always answers. nil: as its interfaces say.
	Own func() map[netip.Addr]bool
}

// NodeProber probes the machines of a cluster, from Run on.
type NodeProber struct {
	Settings

	machines map[types.UID]*machine
	leases   leases
	cutOff   bool
}

// New makes a prober. It sends nothing yet.
func New(s Settings) *NodeProber {
	if s.Ask == nil {
		s.Ask = ask
	}
	if s.Own == nil {
		s.Own = own
	}
	return &NodeProber{Settings: s, machines: map[types.UID]*machine{}}
}

// Run probes until ctx is done.
func (n *NodeProber) Run(ctx context.Context) {
	if !cache.WaitForCacheSync(ctx.Done(), n.Nodes.HasSynced) {
		return
	}
	for {
		begun := n.Now()
		asked := n.round(ctx)
		pause := max(interval, time.Duration(asked)*time.Second/perSecond) - n.Now().Sub(begun)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// round asks every other machine once, and sees to those that are gone. It returns how many were asked.
func (n *NodeProber) round(ctx context.Context) int {
	nodes, here := n.others()
	known, answering := 0, map[string]bool{}
	var silent []*corev1.Node
	for i, answer := range n.askAll(ctx, nodes) {
		m := n.machines[nodes[i].UID]
		m.heard(answer)
		if m.missed == tellAfter && !m.answered {
			klog.InfoS("A machine is not health-checked: it has never answered", "node", nodes[i].Name,
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
	if cutOff := 2*len(answering) < known; cutOff != n.cutOff {
		n.cutOff = cutOff
		klog.InfoS("Connection to the other machines changed", "cutOff", cutOff, "answer", len(answering), "of", known)
	}
	if len(silent) == 0 || n.cutOff {
		n.beginAnew()
		return len(nodes)
	}
	n.see(ctx, silent, answering, here)
	return len(nodes)
}

// beginAnew is for a time in which no kubelet may have been able to renew its Lease: what was seen of them before it
// does not count.
func (n *NodeProber) beginAnew() {
	n.leases = leases{}
	for _, m := range n.machines {
		m.lease = ""
	}
}

// see looks at machines that do not answer, and withdraws the endpoints of those that are gone.
func (n *NodeProber) see(ctx context.Context, silent []*corev1.Node, answering, here map[string]bool) {
	// What a kubelet has not done until the question began, it has not: an answer that takes long says no more.
	asked := n.Now()
	if err := n.leases.look(ctx, n.Client, n.Now); err != nil {
		klog.V(2).InfoS("Machines do not answer, and Leases cannot be read", "machines", len(silent), "err", err)
		n.beginAnew()
		return
	}
	var suspects []*corev1.Node
	for _, node := range silent {
		m := n.machines[node.UID]
		if m.gone(n.leases.of(node.Name), asked, n.Now()) {
			suspects = append(suspects, node)
		}
		if m.alive {
			klog.InfoS("A machine does not answer health checks, but its kubelet renews its Lease", "node", node.Name,
				"address", addressOf(node))
		}
	}
	if len(suspects) == 0 {
		return
	}
	if !n.leases.mostRenew(answering, asked) {
		n.beginAnew()
		return
	}
	var gone []*corev1.Node
	for i, answer := range n.askAll(ctx, suspects) { // the API server may have taken long
		if answer == Silent {
			gone = append(gone, suspects[i])
		}
	}
	if len(gone) > 0 {
		maps.Copy(answering, here)
		n.withdraw(ctx, gone, answering)
	}
}

// others are the Nodes on other machines that Kubernetes has not given up; what is known of any other Node is
// forgotten. The names are of those on this machine.
func (n *NodeProber) others() (nodes []*corev1.Node, here map[string]bool) {
	machines, own := map[types.UID]*machine{}, n.Own()
	here = map[string]bool{}
	for _, node := range objects.List[*corev1.Node](n.Nodes.GetStore()) {
		if !nodestatus.IsReady(node) || !addressOf(node).IsValid() {
			continue
		}
		if own[addressOf(node)] {
			here[node.Name] = true
			continue
		}
		nodes = append(nodes, node)
		machines[node.UID] = n.machines[node.UID]
		if machines[node.UID] == nil {
			machines[node.UID] = &machine{}
		}
	}
	n.machines = machines
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
