package network

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
)

// Why is the decision about a Service: what it has, and which Node may have its address.
type Why struct {
	Balancer
	// Claims are its addresses, one by one.
	Claims []Claim `json:"claims,omitempty"`
	// Nodes are all Nodes of the cluster, by name.
	Nodes []Verdict `json:"nodes"`
	// Findings are what keeps it from being ready, and what to do.
	Findings []finding.Finding `json:"findings,omitempty"`
}

// Claim is one address of a Service.
type Claim struct {
	Address string         `json:"address"`
	Pool    string         `json:"pool,omitempty"`
	Level   v1alpha1.Level `json:"level,omitempty"`
	// Owner is the Service that has it, where it is shared; Sharers are all others.
	Owner   string   `json:"owner,omitempty"`
	Sharers []string `json:"sharers,omitempty"`
	// Probed says since when it is known to be free, as RFC 3339; empty: the network was not asked yet.
	Probed string    `json:"probed,omitempty"`
	Since  time.Time `json:"since"`
}

// Why decides about one Service, NAMESPACE/NAME. It returns nil where there is none of type LoadBalancer.
func (s *Snapshot) Why(service string) *Why {
	i := slices.IndexFunc(s.Services, func(svc corev1.Service) bool { return nameOf(&svc) == service })
	if i < 0 {
		return nil
	}
	svc := &s.Services[i]
	w := &Why{Balancer: s.balancer(svc)}
	claims := s.claims(svc)
	for _, c := range claims {
		claim := Claim{
			Address: addressOf(c), Since: c.CreationTimestamp.Time,
			Pool:   c.Annotations[v1alpha1.ClaimPoolAnnotation],
			Level:  v1alpha1.Level(c.Annotations[v1alpha1.ClaimLevelAnnotation]),
			Probed: c.Annotations[v1alpha1.ClaimProbedAnnotation],
		}
		if owners := ownersOf(c); len(owners) > 1 {
			claim.Owner, claim.Sharers = owners[0], owners[1:]
		}
		w.Claims = append(w.Claims, claim)
	}
	w.Nodes = s.verdicts(svc, claims)
	w.Findings = s.explain(w, claims)
	return w
}

// explain finds what is wrong: what the condition says, and what can be seen beside it.
func (s *Snapshot) explain(w *Why, claims []networkingv1.IPAddress) []finding.Finding {
	object := "Service/" + w.Service
	var list []finding.Finding
	if kind, ok := finding.Lookup(w.Reason); ok && !w.Ready {
		list = append(list, finding.Finding{Kind: kind, Object: object, Message: w.Message})
	}
	eligible := slices.ContainsFunc(w.Nodes, func(v Verdict) bool { return v.Eligible })
	if !eligible && !w.Ready && len(claims) > 0 {
		list = appendNew(list, finding.NoEligibleNode.New(object, "every Node is excluded"))
	}
	for _, c := range claims {
		list = append(list, s.conflicts(addressOf(c))...)
		if pool := s.pool(c.Annotations[v1alpha1.ClaimPoolAnnotation]); pool == nil && s.Defined {
			list = appendNew(list, finding.PoolNotFound.New(object, "AddressPool "+c.Annotations[v1alpha1.ClaimPoolAnnotation]+
				" of address "+addressOf(c)+" does not exist: the Service keeps the address, with default settings"))
		}
	}
	if w.Level.Elected() && len(claims) > 0 && len(w.Announcers) == 0 {
		list = appendNew(list, s.muted()...)
	}
	for i := range list {
		if list[i].Next != "" {
			continue
		}
		switch list[i].ID {
		case finding.NoEligibleNode, finding.NoReadyEndpoint, finding.NotAnnounced:
			s.advise(w, &list[i])
		}
	}
	return list
}

// appendNew leaves out what an ID has said already.
func appendNew(list []finding.Finding, more ...finding.Finding) []finding.Finding {
	for _, f := range more {
		if !slices.ContainsFunc(list, func(other finding.Finding) bool { return other.ID == f.ID }) {
			list = append(list, f)
		}
	}
	return list
}

// muted names the agents that do not report: where many of them have a vote, no address of an elected level has an owner.
func (s *Snapshot) muted() []finding.Finding {
	var names []string
	reports := map[string][]v1alpha1.VoterList{}
	for i := range s.Agents {
		if agent := &s.Agents[i]; s.live(agent) {
			reports[agent.Name] = agent.Status.Voters
		} else {
			names = append(names, agent.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	text := fmt.Sprintf("%d of %d agents do not report: %s", len(names), len(s.Agents), nodes.Some(names, fewNodes))
	if missing, of := v1alpha1.MissingVotes(v1alpha1.Votes(reports), names); of > 0 {
		text += fmt.Sprintf("; %d of %d votes on addresses of level L2 are missing", len(missing), of)
		if slices.Sort(missing); len(missing) > 0 {
			text += ": " + nodes.Some(missing, fewNodes)
		}
	}
	f := finding.AgentSilent.New("NodeAgent/"+names[0], text)
	f.Next = "kubectl get pods " + agentPods + " -o wide --field-selector spec.nodeName=" + names[0]
	return []finding.Finding{f}
}

// conflicts are the agents' reports of other machines that answer for the address.
func (s *Snapshot) conflicts(address string) []finding.Finding {
	var list []finding.Finding
	for i := range s.Agents {
		for _, k := range s.Agents[i].Status.KernelAnswers {
			if same(k.Address, address) && s.live(&s.Agents[i]) {
				list = appendNew(list, finding.ProxyBinds.New("Node/"+s.Agents[i].Name, "its kernel answers for "+address+" on "+
					finding.Clean(k.Interface)+", whichever Node has it: the address is on "+finding.Clean(k.On)))
			}
		}
		for _, c := range s.Agents[i].Status.Conflicts {
			if same(c.Address, address) && s.Now.Sub(c.Seen.Time) < 10*time.Minute {
				list = appendNew(list, finding.AddressConflict.New("Node/"+s.Agents[i].Name,
					finding.Clean(c.MAC)+" answers for "+address+" on "+finding.Clean(c.Interface)))
			}
		}
	}
	return list
}

func (s *Snapshot) pool(name string) *v1alpha1.AddressPool {
	for i := range s.Pools {
		if s.Pools[i].Name == name {
			return &s.Pools[i]
		}
	}
	return nil
}
