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

// planeInterval is that of looks at where the API server is, and whether the table that protects it is there. DNS is asked once a minute.
const planeInterval = 20 * time.Second

// rewriteAfter is how old the table becomes: another program may have removed its rules.
const rewriteAfter = time.Minute

// apiServers knows where the API server is: by the agent's own connection, its command line, and the EndpointSlices of Service
// default/kubernetes. What is there is announced for no Service, whatever a claim says.
type apiServers struct {
	hosts  []string
	slices cache.SharedIndexInformer
	names  *controlplane.Lookups
	now    func() time.Time
	// vip is the control plane's own address, from which kube-proxy is kept away; none: there is none.
	vip        netip.AddrPort
	written    time.Time // when the table was
	unshielded string    // why it is not, as it was logged

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
	p.hosts, p.vip = append(p.hosts, at.Addr().String()), at
	p.shielded(p.writeShield())
}

// keepShield writes the table again where it is gone, and where it is old: `nft flush ruleset`, as a reload of nftables.service runs it, removes
// all tables, and `nft flush table` the rules of one.
func (p *apiServers) keepShield() {
	if !p.vip.IsValid() {
		return
	}
	there, err := controlplane.Shielded()
	if err == nil && (!there || p.now().Sub(p.written) >= rewriteAfter) {
		if err = p.writeShield(); err == nil && !there {
			klog.InfoS("Wrote nftables table inet ccmadm-control-plane again: another program had removed it")
		}
	}
	p.shielded(err)
}

func (p *apiServers) writeShield() error {
	err := controlplane.Shield(p.vip)
	if err == nil {
		p.written = p.now()
	}
	return err
}

// shielded logs why the table is not there, once.
func (p *apiServers) shielded(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if err != nil && text != p.unshielded {
		klog.ErrorS(err, "Cannot write nftables table inet ccmadm-control-plane: a Service with the control plane VIP could redirect "+
			"connections to the API server")
	}
	p.unshielded = text
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
			p.keepShield()
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
