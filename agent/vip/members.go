package vip

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/google/renameio/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/nodestatus"
)

// memberFor is how long a kubelet may not be heard of while its Node still has a vote.
const memberFor = 40 * time.Second

// learn takes in the control planes of the cluster. A list without this one is of before it joined. All are kept for
// the next start before any of it is acted upon: a process that knows less than the others would count its majority
// wrongly. So is who has no vote.
func (h *holder) learn(nodes []corev1.Node, pods []corev1.Pod) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.SortFunc(nodes, older)
	var members []member
	known, there := map[string]*corev1.Node{}, map[string]bool{}
	for i := range nodes {
		n := &nodes[i]
		known[n.Name] = n
		m := member{Name: n.Name}
		if addresses := nodestatus.InternalIPs(n); len(addresses) > 0 {
			m.Address = addresses[0]
		}
		if n.Name == h.self {
			m.Address = h.here()
		} else {
			age := func(name string, ready bool, since time.Time) (least, most time.Duration) {
				there[name] = true
				return h.seen.Age(name, ready, since, h.now())
			}
			noKubelet, noPod := unheard(n, age), podSilent(pods, n.Name, h.silent(n.Name), age)
			m.Silent = noKubelet || noPod
		}
		if m.Address.IsValid() {
			members = append(members, m)
		}
	}
	if known[h.self] == nil {
		return nil
	}
	if pods != nil { // any kubelet may make pods
		h.seen.Forget(func(name string) bool { return there[name] })
	}
	if !slices.Equal(members, h.members) {
		if err := writeMembers(h.file, members); err != nil {
			return err
		}
	}
	h.members, h.nodes = members, known
	h.set(h.view())
	return nil
}

// older sorts by the age of Nodes, on each machine in the same way.
func older(a, b corev1.Node) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

func (h *holder) here() netip.Addr {
	i := slices.IndexFunc(h.members, func(m member) bool { return m.Name == h.self })
	return h.members[i].Address // newHolder has seen to it
}

// unheard reports whether a kubelet has not been heard of for [memberFor]. One that says that it is not ready is alive: before there is a
// CNI plugin none of them is ready.
func unheard(n *corev1.Node, age ages) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			unknown := c.Status == corev1.ConditionUnknown
			_, most := age("node/"+n.Name, !unknown, c.LastTransitionTime.Time)
			return unknown && most > memberFor
		}
	}
	return false
}

// silent reports whether a member has no vote.
func (h *holder) silent(name string) bool {
	return slices.ContainsFunc(h.members, func(m member) bool { return m.Name == name && m.Silent })
}

// member is one in the file, which ccmadm begins.
type member struct {
	Name    string     `json:"name"`
	Address netip.Addr `json:"address"`
	// Silent has no vote: its kubelet is not heard of, or its static pod is not Ready.
	Silent bool `json:"silent,omitempty"`
}

func readMembers(path string) ([]member, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read --members-file: %w", err)
	}
	var list []member
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("read --members-file: %s: %w", path, err)
	}
	return list, nil
}

func writeMembers(path string, list []member) error {
	data, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("encode members: %w", err)
	}
	if err := renameio.WriteFile(path, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write members: %w", err)
	}
	return nil
}
