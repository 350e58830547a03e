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
	if err != nil {
		return nil, err
	}
	return newVIP(time.Now(), pods.Items, nodes.Items, agents.Items), nil
}

func newVIP(now time.Time, pods []corev1.Pod, nodes []corev1.Node, agents []v1alpha1.NodeAgent) *VIP {
	v := &VIP{}
	states := map[string]string{}
	for i := range pods {
		p := &pods[i]
		states[p.Spec.NodeName] = podState(now, p)
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
	reports := reportsOf(now, agents)
	newest := v.decide(reports)
	for name, state := range states {
		v.Members = append(v.Members, v.member(now, name, state, reports[name], newest))
	}
	slices.SortFunc(v.Members, func(a, b VIPMember) int { return strings.Compare(a.Node, b.Node) })
	return v
}

// reportsOf are the agents that have told lately of the address, by Node.
func reportsOf(now time.Time, agents []v1alpha1.NodeAgent) map[string]*v1alpha1.NodeAgent {
	reports := map[string]*v1alpha1.NodeAgent{}
	for i := range agents {
		a := &agents[i]
		if a.Status.ControlPlaneVIP != nil && now.Sub(a.Status.RenewTime.Time) <= Patience {
			reports[a.Name] = a
		}
	}
	return reports
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

func (v *VIP) member(now time.Time, name, state string, report, newest *v1alpha1.NodeAgent) VIPMember {
	m := VIPMember{Node: name, Pod: state, Has: slices.Contains(v.Owners, name), Votes: slices.Contains(v.Votes, name)}
	switch {
	case report == nil:
		m.Because = "no agent reports from here"
	case report.Status.ControlPlaneVIP.Has && !m.Has:
		m.Reported = true
		m.Because = fmt.Sprintf("it had the address %s ago; %s reports that %s has it", now.Sub(report.Status.RenewTime.Time).Round(time.Second),
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
