package agent

import (
	"context"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/provider/announce"
	"github.com/ccmadm/ccmadm/provider/controlplane"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// planeInterval is that of looks at where the API server is. DNS is asked once a minute.
const planeInterval = 20 * time.Second

// apiServers knows where the API server is: by the agent's own connection, its command line, and the EndpointSlices of Service
// default/kubernetes. What is there is announced for no Service, whatever a claim says.
type apiServers struct {
	hosts  []string
	slices cache.SharedIndexInformer
	names  *controlplane.Lookups
	now    func() time.Time

	endpoints atomic.Pointer[map[netip.Addr]bool]
	told      sync.Map // addresses of claims that were left out
}

func newAPIServers(config *rest.Config, slices cache.SharedIndexInformer) *apiServers {
	p := &apiServers{slices: slices, names: controlplane.NewLookups(), now: time.Now}
	if u, err := url.Parse(config.Host); err == nil && u.Hostname() != "" {
		p.hosts = append(p.hosts, u.Hostname())
	}
	return p
}

// shield takes the control plane's own address. kube-proxy's rules for Services are kept away from connections to that address; without
// one, what an agent has left that had one is taken away. An error of the kernel is logged: addresses are announced without it.
func (p *apiServers) shield(at netip.AddrPort) {
	if !at.IsValid() {
		if err := controlplane.Unshield(); err != nil {
			klog.ErrorS(err, "Cannot remove nftables table inet ccmadm-control-plane")
		}
		return
	}
	p.hosts = append(p.hosts, at.Addr().String())
	if err := controlplane.Shield(at); err != nil {
		klog.ErrorS(err, "Cannot write nftables table inet ccmadm-control-plane: a Service with the control plane VIP could redirect "+
			"connections to the API server")
	}
}

// look resolves the names. It waits for DNS, two seconds at most for each.
func (p *apiServers) look(ctx context.Context) {
	endpoints := p.names.Of(ctx, p.now(), p.hosts...)
	p.endpoints.Store(&endpoints)
}

// run looks until ctx is done. The first look is its caller's, before anything is announced.
func (p *apiServers) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(planeInterval):
			p.look(ctx)
		}
	}
}

// known are the control plane's addresses.
func (p *apiServers) known() controlplane.Addresses {
	known := controlplane.Addresses{Servers: controlplane.ServersOf(objects.List[*discoveryv1.EndpointSlice](p.slices.GetStore()))}
	if endpoints := p.endpoints.Load(); endpoints != nil {
		known.Endpoints = *endpoints
	}
	return known
}

// without leaves out the claims of addresses that are the control plane's.
func (p *apiServers) without(claims []announce.Claim) []announce.Claim {
	known := p.known()
	return slices.DeleteFunc(claims, func(c announce.Claim) bool {
		if !known.Has(c.Address) {
			return false
		}
		if _, told := p.told.LoadOrStore(c.Address, true); !told {
			klog.ErrorS(nil, "Service has an address of the control plane: it is not announced; give the Service another address",
				"address", c.Address, "services", c.Services)
		}
		return true
	})
}
