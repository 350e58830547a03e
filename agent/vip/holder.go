package vip

import (
	"context"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
	"github.com/ccmadm/ccmadm/provider/changes"
)

// addressPool is the pool of the address in a view, which has the interface.
const addressPool = "control-plane"

// placeAgain is when the kernel is asked again for what it has refused.
const placeAgain = time.Second

// holder has the control plane's own address on lo while this machine's API server answers, or while no other machine could
// have the address, and says to the announcer who else may have it.
type holder struct {
	self    string
	address netip.Addr
	ifi     string
	file    string
	now     func() time.Time
	set     func(*announce.View)
	owns    func(netip.Addr) bool
	// answerable says what keeps this machine from answering for the address.
	answerable func(netip.Addr) error
	// votes and owner are for reports.
	votes func() (all, unheard []string)
	owner func(netip.Addr) string

	mu      sync.Mutex
	healthy bool
	failing time.Time // since when the machine could not answer for the address; zero: it could
	cut     error     // why it could not for a while; nil: it can
	ended   bool
	retry   *time.Timer
	members []member                // the oldest Node first, so that one that comes new cannot outvote it
	nodes   map[string]*corev1.Node // as the API server last listed them; nil before
	seen    announce.Sightings
}

// hold is called with each change of the API server's health. Draining tells the others that theirs are better. An
// error says that the machine cannot have the address yet, and that it is to be called again.
func (h *holder) hold(healthy bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if healthy {
		if err := addToLoopback(h.address); err != nil {
			klog.ErrorS(err, "Cannot add the control plane VIP to lo, although the API server of this machine is healthy")
			return err
		}
	}
	h.healthy = healthy
	klog.InfoS("API server of this machine", "healthy", healthy)
	h.set(h.view())
	h.place()
	return nil
}

// moved is called when the announcer has taken or left the address.
func (h *holder) moved() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.place()
}

// place keeps the address on lo without an API server for as long as nobody takes it: clients that are refused at once
// know more than those that wait, and the API server may come back. The caller has the lock.
func (h *holder) place() {
	if h.retry != nil {
		h.retry.Stop()
		h.retry = nil
	}
	change := removeFromLoopback
	if !h.ended && (h.healthy || h.owns(h.address)) {
		change = addToLoopback
	}
	if err := change(h.address); err != nil {
		klog.ErrorS(err, "Failed to move the control plane's address")
		h.retry = time.AfterFunc(placeAgain, h.moved)
	}
}

// view is what the announcer goes by. The oldest decides in case of a draw.
func (h *holder) view() *announce.View {
	pool := &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: addressPool}}
	pool.Spec.Interfaces = []string{h.ifi}
	v := &announce.View{
		Node: h.self, Draining: !h.healthy || h.cut != nil, Addresses: map[string]netip.Addr{}, Nodes: h.nodes,
		Pools: map[string]*v1alpha1.AddressPool{addressPool: pool},
	}
	claim := announce.Claim{
		Address: h.address, Level: v1alpha1.LevelL2, Pool: addressPool,
		Probed: true, // ccmadm has asked the network, before there was a cluster
	}
	for _, m := range h.members {
		v.Addresses[m.Name] = m.Address
		claim.Candidates = append(claim.Candidates, m.Name)
		v.All = append(v.All, m.Name)
		if m.Silent {
			v.Silent = append(v.Silent, m.Name)
		} else {
			v.Members = append(v.Members, m.Name)
		}
	}
	v.Claims = []announce.Claim{claim}
	return v
}

// release takes the address from lo for good.
func (h *holder) release() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	return removeFromLoopback(h.address)
}

// follow keeps the list of control planes as the API server has it, until ctx is done. What it does not say stays as it
// was.
func (h *holder) follow(ctx context.Context, kubeconfig string) error {
	for ; ctx.Err() == nil; changes.Sleep(ctx, 2*time.Second) {
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig) // kubeadm renews its certificate once a year
		if err != nil {
			continue // kubeadm has not written it yet
		}
		config.Timeout = 5 * time.Second
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			continue
		}
		list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.ControlPlaneLabel})
		if err != nil {
			continue // it comes back, or this machine's API server is the one that is away
		}
		pods, err := listPods(ctx, client)
		if err != nil {
			continue
		}
		if err := h.learn(list.Items, pods); err != nil {
			klog.ErrorS(err, "Failed to save the list of control planes for the next start")
		}
	}
	return nil
}
