package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/renameio/v2"
	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
)

// vipPool is the pool of the address in a view, which has the interface.
const vipPool = "control-plane"

// holder has the control plane's address on lo while this machine's API server answers, and says to the announcer who
// else may have it.
type holder struct {
	self    string
	address netip.Addr
	ifi     string
	file    string
	now     func() time.Time
	set     func(*announce.View)

	mu      sync.Mutex
	healthy bool
	members map[string]netip.Addr
	nodes   map[string]*corev1.Node // as the API server last listed them; nil before
}

// hold is called with each change of the API server's health. The only control plane keeps the address once it had it:
// nobody could take it, and a moment's load would cut off everybody.
func (h *holder) hold(healthy bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !healthy && len(h.members) == 1 {
		return
	}
	h.healthy = healthy
	klog.InfoS("API server of this machine", "healthy", healthy)
	change := h.onLoopback
	if !healthy {
		change = h.offLoopback
	}
	if err := change(); err != nil {
		klog.ErrorS(err, "The control plane's address is not where it should be")
		h.healthy = false // then others are to have it
	}
	h.set(h.view())
}

// view is what the announcer goes by. Draining tells the others that their API servers are better.
func (h *holder) view() *announce.View {
	names := slices.Sorted(maps.Keys(h.members))
	pool := &v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: vipPool}}
	pool.Spec.Interfaces = []string{h.ifi}
	return &announce.View{
		Node: h.self, Draining: !h.healthy, Members: names, Addresses: maps.Clone(h.members), Nodes: h.nodes,
		Pools: map[string]*v1alpha1.AddressPool{vipPool: pool},
		Claims: []announce.Claim{{
			Address: h.address, Level: v1alpha1.LevelL2, Pool: vipPool, Candidates: names,
			Probed: true, // ccmadm has asked the network, before there was a cluster
		}},
	}
}

func (h *holder) prefix() *netlink.Addr {
	p := netip.PrefixFrom(h.address, h.address.BitLen())
	addr, _ := netlink.ParseAddr(p.String()) // it is one
	return addr
}

func (h *holder) onLoopback() error {
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.AddrReplace(lo, h.prefix())
	}
	if err != nil {
		return fmt.Errorf("put %s on lo: %w", h.address, err)
	}
	return nil
}

func (h *holder) offLoopback() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("take %s from lo: %w", h.address, err)
	}
	addresses, err := netlink.AddrList(lo, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("take %s from lo: %w", h.address, err)
	}
	for _, a := range addresses {
		if there, ok := netip.AddrFromSlice(a.IP); ok && there.Unmap() == h.address {
			if err := netlink.AddrDel(lo, &a); err != nil {
				return fmt.Errorf("take %s from lo: %w", h.address, err)
			}
		}
	}
	return nil
}

func (h *holder) release() error { return h.offLoopback() }

// follow keeps the list of control planes as the API server has it, until ctx is done. What it does not say stays as it
// was.
func (h *holder) follow(ctx context.Context, kubeconfig string) error {
	for ; ctx.Err() == nil; sleep(ctx, 2*time.Second) {
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
		if err := h.learn(list.Items); err != nil {
			klog.ErrorS(err, "The list of control planes is not kept for the next start")
		}
	}
	return nil
}

// memberFor is how long a Node may be not Ready and still has a vote.
const memberFor = 40 * time.Second

// learn takes in the control planes of the cluster. A list without this one is of before it joined.
func (h *holder) learn(nodes []corev1.Node) error {
	members, known := map[string]netip.Addr{}, map[string]*corev1.Node{}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range nodes {
		n := &nodes[i]
		known[n.Name] = n
		for _, a := range n.Status.Addresses {
			addr, err := netip.ParseAddr(a.Address)
			if a.Type == corev1.NodeInternalIP && err == nil && !silentSince(n, h.now().Add(-memberFor)) {
				members[n.Name] = addr
				break
			}
		}
	}
	if known[h.self] == nil {
		return nil
	}
	members[h.self] = h.members[h.self]
	same := maps.Equal(members, h.members) && len(known) == len(h.nodes)
	h.members, h.nodes = members, known
	h.set(h.view())
	if same {
		return nil
	}
	return writeMembers(h.file, members)
}

// silentSince says whether a Node has not been Ready since then.
func silentSince(n *corev1.Node, then time.Time) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status != corev1.ConditionTrue && c.LastTransitionTime.Time.Before(then)
		}
	}
	return false
}

// member is one in the file, which ccmadm begins.
type member struct {
	Name    string     `json:"name"`
	Address netip.Addr `json:"address"`
}

func readMembers(path string) (map[string]netip.Addr, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read --members-file: %w", err)
	}
	var list []member
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("read --members-file: %s: %w", path, err)
	}
	members := map[string]netip.Addr{}
	for _, m := range list {
		members[m.Name] = m.Address
	}
	return members, nil
}

func writeMembers(path string, members map[string]netip.Addr) error {
	var list []member
	for _, name := range slices.Sorted(maps.Keys(members)) {
		list = append(list, member{name, members[name]})
	}
	data, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("encode members: %w", err)
	}
	if err := renameio.WriteFile(path, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write members: %w", err)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
