package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// VIP is the control plane's own address: which machines may have it, and which has it. It is what node agents of control
// planes report, as their static pods say.
type VIP struct {
	// Address is the one in the manifests of the static pods; ByBGP says that every machine that works announces it.
	Address string `json:"address"`
	ByBGP   bool   `json:"byBGP,omitempty"`
	// Owners are the machines that have it; with several and without BGP, reports contradict each other.
	Owners []string `json:"owners,omitempty"`
	// Votes are the control planes that decide, and Unheard those of them that do not report, by the newest report.
	Votes   []string `json:"votes,omitempty"`
	Unheard []string `json:"unheard,omitempty"`
	// Members are the machines with the static pod, and the control planes without.
	Members []VIPMember `json:"members"`
}

// VIPMember is a control plane.
type VIPMember struct {
	Node string `json:"node"`
	// Has says that the machine has the address, Votes that it decides with others about it.
	Has   bool `json:"has"`
	Votes bool `json:"votes"`
	// Pod is the state of its static pod, and Because why the machine has the address, or has not.
	Pod     string `json:"pod"`
	Because string `json:"because"`
	// Reported says that an agent of the machine has told so lately.
	Reported bool `json:"reported"`
}

// ReadVIP looks at the cluster once. It returns nil where no static pod holds an address.
func ReadVIP(ctx context.Context, c client.Reader) (*VIP, error) {
	var pods corev1.PodList
	var nodes corev1.NodeList
	var agents v1alpha1.NodeAgentList
	err := errors.Join(
		List(ctx, c, "Pods", &pods, client.InNamespace(v1alpha1.Namespace),
			client.MatchingLabels{v1alpha1.ComponentLabel: v1alpha1.VIPName}),
		List(ctx, c, "Nodes", &nodes, client.HasLabels{v1alpha1.ControlPlaneLabel}),
	)
	if undefined := List(ctx, c, "NodeAgents", &agents); !errors.Is(undefined, ErrUndefined) {
		err = errors.Join(err, undefined)
	}
	renewals, unread := ReadRenewals(ctx, c)
	if err = errors.Join(err, unread); err != nil {
		return nil, err
	}
	return newVIP(pods.Items, nodes.Items, reports{time.Now(), agents.Items, renewals}), nil
}

// reports are what agents say at a moment, and which of them are alive.
type reports struct {
	now      time.Time
	agents   []v1alpha1.NodeAgent
	renewals Renewals
}

func newVIP(pods []corev1.Pod, nodes []corev1.Node, said reports) *VIP {
	v := &VIP{}
	states := map[string]string{}
	for i := range pods {
		p := &pods[i]
		states[p.Spec.NodeName] = podState(said.now, p)
		for _, c := range p.Spec.Containers {
			for _, arg := range c.Args {
				if address, is := strings.CutPrefix(arg, "--vip="); is {
					v.Address = cmp.Or(v.Address, finding.Clean(address))
				}
				v.ByBGP = v.ByBGP || strings.HasPrefix(arg, "--bgp=")
			}
		}
	}
	if len(pods) == 0 {
		return nil
	}
	for i := range nodes {
		if _, there := states[nodes[i].Name]; !there {
			states[nodes[i].Name] = "none"
		}
	}
	lately := said.lately()
	newest := v.decide(lately)
	for name, state := range states {
		v.Members = append(v.Members, v.member(name, state, lately[name], newest, said))
	}
	slices.SortStableFunc(v.Members, func(a, b VIPMember) int { return strings.Compare(a.Node, b.Node) })
	return v
}

func (r reports) silence(a *v1alpha1.NodeAgent) time.Duration { return r.renewals.Silence(r.now, a) }

// lately are those of agents that know of the address and are alive, by Node.
func (r reports) lately() map[string]*v1alpha1.NodeAgent {
	byNode := map[string]*v1alpha1.NodeAgent{}
	for i := range r.agents {
		a := &r.agents[i]
		if a.Status.ControlPlaneVIP != nil && r.silence(a) <= Patience {
			byNode[a.Name] = a
		}
	}
	return byNode
}

// decide finds who has the address, and the votes. Reports are written when something changes: where they differ, the newest
// is right. That of a machine that is off says for a minute that it has the address.
func (v *VIP) decide(reports map[string]*v1alpha1.NodeAgent) (newest *v1alpha1.NodeAgent) {
	for name, a := range reports {
		if a.Status.ControlPlaneVIP.Has {
			v.Owners = append(v.Owners, name)
		}
		if newest == nil || a.Status.RenewTime.After(newest.Status.RenewTime.Time) {
			newest = a
		}
	}
	slices.Sort(v.Owners)
	if newest == nil || v.ByBGP {
		return newest
	}
	r := newest.Status.ControlPlaneVIP
	v.Votes, v.Unheard = r.Votes, r.Unheard
	if len(v.Owners) > 1 && r.Owner != "" {
		v.Owners = []string{r.Owner}
	}
	return newest
}

func (v *VIP) member(name, state string, report, newest *v1alpha1.NodeAgent, said reports) VIPMember {
	m := VIPMember{Node: name, Pod: state, Has: slices.Contains(v.Owners, name), Votes: slices.Contains(v.Votes, name)}
	switch {
	case report == nil:
		m.Because = "no agent reports from here"
	case report.Status.ControlPlaneVIP.Has && !m.Has:
		m.Reported = true
		m.Because = fmt.Sprintf("it had the address %s ago; %s reports that %s has it", said.silence(report).Round(time.Second),
			newest.Name, strings.Join(v.Owners, ", "))
	default:
		m.Reported, m.Because = true, finding.Clean(report.Status.ControlPlaneVIP.Message)
	}
	if slices.Contains(v.Unheard, name) {
		m.Because += "; its vote is missing"
	}
	return m
}

// podState is what the kubelet says of a static pod.
func podState(now time.Time, p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type != corev1.PodReady {
			continue
		}
		if c.Status == corev1.ConditionTrue {
			return "ready"
		}
		return fmt.Sprintf("not ready for %s", now.Sub(c.LastTransitionTime.Time).Round(time.Second))
	}
	return string(p.Status.Phase)
}

// Summary is one line, for people: who has the address, and what is not as it should be.
func (v *VIP) Summary() string {
	text := "control plane's address " + v.Address + ": "
	switch reported := slices.ContainsFunc(v.Members, func(m VIPMember) bool { return m.Reported }); {
	case !reported:
		text += "no agent reports who has it"
	case len(v.Owners) == 0:
		text += "no control plane has it"
	case v.ByBGP:
		text += "announced by " + strings.Join(v.Owners, ", ")
	default:
		text += strings.Join(v.Owners, " and ") + " has it"
	}
	if len(v.Unheard) > 0 {
		text += fmt.Sprintf("; %d of %d votes are missing: %s", len(v.Unheard), len(v.Votes), strings.Join(v.Unheard, ", "))
	}
	return text
}
