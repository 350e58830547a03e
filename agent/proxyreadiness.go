package agent

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/ccmadm/ccmadm/provider/announce"
	"github.com/ccmadm/ccmadm/provider/changes"
)

// proxyPollInterval is how often this Node's kube-proxy is asked whether it knows of an endpoint.
const proxyPollInterval = 20 * time.Millisecond

const (
	// proxyPollSoon is how long it is asked as often. An endpoint comes within seconds, or not for long: a Service whose pods lack its
	// target port has none for ever. Then the pause doubles up to proxyPollMost.
	proxyPollSoon = 5 * time.Second
	proxyPollMost = time.Second
)

// proxyReadiness knows whether this Node's kube-proxy sends packets to an endpoint of this Node. kube-proxy takes in changes
// once a second; while its former owner still answers, an address need not move earlier.
type proxyReadiness struct {
	poke   func()
	client *http.Client

	mu    sync.Mutex
	asked map[string]*question // by URL
}

// question is under way until known.
type question struct {
	known bool
	end   context.CancelFunc
}

func newProxyReadiness(poke func()) *proxyReadiness {
	client := &http.Client{
		Timeout:       time.Second,
		Transport:     &http.Transport{DisableKeepAlives: true}, // no proxy of the environment: it is this machine
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &proxyReadiness{poke: poke, client: client, asked: map[string]*question{}}
}

// mark sets Early of the claims that another Node should give to this one since its endpoints end, or since this one is preferred. It
// does not wait for answers, but pokes when there is one. Questions end with ctx, and with what they were asked for.
func (p *proxyReadiness) mark(ctx context.Context, v *announce.View, services cache.Store) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted := map[string]bool{}
	for i := range v.Claims {
		claim := &v.Claims[i]
		moves := (len(claim.Ending) > 0 || slices.Contains(claim.Preferred, v.Node)) && claim.Here(v.Node) &&
			!slices.Contains(claim.Ending, v.Node)
		if !claim.Level.Elected() || !moves {
			continue
		}
		for _, url := range healthURLs(v.Addresses[v.Node], claim.Deciding(), services) {
			wanted[url] = true
			if p.asked[url] == nil {
				asking, end := context.WithCancel(ctx)
				p.asked[url] = &question{end: end}
				go p.ask(asking, url, p.asked[url])
			}
			claim.Early = claim.Early || !p.asked[url].known
		}
	}
	for url, q := range p.asked {
		if !wanted[url] {
			q.end()
			delete(p.asked, url)
		}
	}
}

// healthURLs are where kube-proxy reports whether a Node has endpoints of Services with externalTrafficPolicy Local.
func healthURLs(node netip.Addr, names []types.NamespacedName, services cache.Store) []string {
	var urls []string
	for _, name := range names {
		object, _, _ := services.GetByKey(name.String()) // a store of client-go has no error here
		s, is := object.(*corev1.Service)
		const local = corev1.ServiceExternalTrafficPolicyLocal
		if is && s.Spec.ExternalTrafficPolicy == local && s.Spec.HealthCheckNodePort > 0 {
			at := netip.AddrPortFrom(node, uint16(s.Spec.HealthCheckNodePort))
			urls = append(urls, fmt.Sprintf("http://%s/", at))
		}
	}
	return urls
}

// ask asks until the answer is another than that there are no endpoints. Where nothing answers, there is no other source.
func (p *proxyReadiness) ask(ctx context.Context, url string, q *question) {
	pause, began := proxyPollInterval, time.Now()
	for p.without(ctx, url) {
		changes.Sleep(ctx, pause)
		if time.Since(began) > proxyPollSoon {
			pause = min(2*pause, proxyPollMost)
		}
	}
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	q.known = true
	p.mu.Unlock()
	p.poke()
}

// without reports whether kube-proxy answers that it has no endpoints.
func (p *proxyReadiness) without(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := p.client.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusServiceUnavailable
}
