package network

import (
	"context"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ccmadm/ccmadm/api/nodestatus"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// Machines tells whose a hardware address is.
type Machines struct {
	// Nodes are those that report a MAC, by it: more than one if several claim it.
	Nodes map[string][]string
	// Unreported are the addresses of control planes without an agent, by Node: it answers for them itself.
	Unreported map[string][]string
}

// ReadMachines reads NodeAgents and control planes. A cluster without agents is no error.
func ReadMachines(ctx context.Context, c client.Reader) (*Machines, error) {
	var agents v1alpha1.NodeAgentList
	if err := List(ctx, c, "NodeAgents", &agents); err != nil && !errors.Is(err, ErrUndefined) {
		return nil, err
	}
	var nodes corev1.NodeList
	if err := List(ctx, c, "Nodes", &nodes, client.HasLabels{v1alpha1.ControlPlaneLabel}); err != nil {
		return nil, err
	}
	return newMachines(agents.Items, nodes.Items), nil
}

func newMachines(agents []v1alpha1.NodeAgent, controlPlanes []corev1.Node) *Machines {
	m := &Machines{Nodes: map[string][]string{}, Unreported: map[string][]string{}}
	reported := map[string]bool{}
	for i := range agents {
		for _, ifi := range agents[i].Status.Interfaces {
			if ifi.MAC != "" {
				m.Add(ifi.MAC, agents[i].Name)
				reported[agents[i].Name] = true
			}
		}
	}
	for i := range controlPlanes {
		n := &controlPlanes[i]
		if reported[n.Name] {
			continue
		}
		for _, ip := range nodestatus.InternalIPs(n) {
			m.Unreported[n.Name] = append(m.Unreported[n.Name], ip.String())
		}
	}
	return m
}

// Add says that a Node has a MAC.
func (m *Machines) Add(mac, node string) {
	mac = strings.ToLower(mac)
	if !slices.Contains(m.Nodes[mac], node) {
		m.Nodes[mac] = append(m.Nodes[mac], node)
		slices.Sort(m.Nodes[mac])
	}
}
