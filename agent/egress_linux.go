package agent

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/vishvananda/netns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
	"github.com/ccmadm/ccmadm/provider/egress"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// egressSender shows an egress.Agent each view, as announcers are.
type egressSender struct {
	*egress.Agent
	caches *caches
	routes bool
	within []netip.Prefix
}

func newEgress(o Options, c *caches, changed func(), owns func(netip.Addr) bool) (*egressSender, error) {
	kernel, err := egress.OpenKernel(netns.None())
	if err != nil {
		return nil, err
	}
	sender := &egressSender{Agent: egress.NewAgent(kernel, owns, changed), caches: c, routes: o.Routes, within: o.ClusterCIDRs}
	if o.CountEgress != nil {
		o.CountEgress(sender.Counts)
	}
	return sender, nil
}

// Set is of [announce.Announcer].
func (e *egressSender) Set(view *announce.View) {
	own := view.Agents[view.Node]
	if own == nil {
		return // its first report is on its way: until then the interfaces are not known
	}
	in := egress.Inputs{
		Node: view.Node, Nodes: slices.Collect(maps.Values(view.Nodes)), Services: map[string]*corev1.Service{},
		OwnRanges: e.routes, Within: e.within,
	}
	for _, claim := range view.Claims {
		if !claim.Level.Elected() {
			continue // by BGP, answers reach any Node
		}
		address := egress.Address{Addr: claim.Address}
		for _, object := range servicesOf(e.caches, claim) {
			if service, is := object.(*corev1.Service); is && v1alpha1.WantsEgress(service.Labels) {
				name := types.NamespacedName{Namespace: service.Namespace, Name: service.Name}
				address.Services, in.Services[name.String()] = append(address.Services, name), service
			}
		}
		if len(address.Services) == 0 {
			continue
		}
		address.Interface = announce.InterfaceFor(claim.Address, own.Status.Interfaces, view.InterfacesOf(claim))
		address.Unfit = !allSend(view, claim)
		in.Addresses = append(in.Addresses, address)
	}
	if len(in.Addresses) > 0 {
		known := e.caches.apiServers.known()
		in.Servers, in.Endpoints = slices.Collect(maps.Keys(known.Servers)), slices.Collect(maps.Keys(known.Endpoints))
		for _, slice := range objects.List[*discoveryv1.EndpointSlice](e.caches.slices.GetStore()) {
			if in.Services[slice.Namespace+"/"+slice.Labels[discoveryv1.LabelServiceName]] != nil {
				in.Slices = append(in.Slices, slice)
			}
		}
	}
	e.Agent.Set(in)
}

// allSend reports whether each Node that may own the address translates packets of other Nodes' pods, and lets none pass as it is.
func allSend(view *announce.View, claim announce.Claim) bool {
	return !slices.ContainsFunc(claim.Candidates, func(node string) bool {
		return view.Agents[node] == nil || !view.Agents[node].Status.Egress
	})
}

// Report says whether this Node can be the owner, once that is known.
func (e *egressSender) Report(status *v1alpha1.NodeAgentStatus) {
	if fit, known := e.Fit(); known {
		status.Egress = fit
	}
}
