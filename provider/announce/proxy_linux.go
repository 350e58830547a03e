package announce

import (
	"context"
	"net/netip"
	"slices"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/relay"
)

// Proxy carries connections to the addresses of level Proxy that [L2] owns here: it is its Carrier.
type Proxy struct{ *relay.Relay }

var (
	_ Announcer = Proxy{}
	_ Carrier   = Proxy{}
)

// Set is what [Announcer] says.
func (p Proxy) Set(view *View) { p.Relay.Set(view.Frontends, view.local()) }

// Report is what [Announcer] says. What is announced, L2 reports.
func (p Proxy) Report(status *v1alpha1.NodeAgentStatus) { status.Proxy = p.Ready() }

// Drain has nothing to do: L2 gives the addresses away, and Run lets connections end.
func (p Proxy) Drain(context.Context) {}

// local are the addresses of this Node's interfaces, that first by which other agents hear it.
func (v *View) local() []netip.Addr {
	agent := v.Agents[v.Node]
	if agent == nil {
		return nil
	}
	var list []netip.Addr
	for _, i := range agent.Status.Interfaces {
		for _, text := range i.Addresses {
			if prefix, err := netip.ParsePrefix(text); err == nil {
				list = append(list, prefix.Addr())
			}
		}
	}
	slices.SortStableFunc(list, func(a, b netip.Addr) int {
		first := v.Addresses[v.Node]
		switch {
		case a == first && b != first:
			return -1
		case b == first && a != first:
			return 1
		}
		return 0
	})
	return list
}
