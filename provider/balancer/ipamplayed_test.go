package balancer

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/ipam"
)

// played is an IPAM. It has one address for each path.
type played struct {
	*httptest.Server
	cluster string // that it expects
	mu      sync.Mutex
	free    []string
	has     map[string]string // by path
	status  int               // that it answers instead; 0: none
	lost    bool              // PUT is carried out, and 503 answered
	calls   []string
}

func newPlayed(t *testing.T, free ...string) *played {
	t.Helper()
	p := &played{cluster: "c1", free: free, has: map[string]string{}}
	p.Server = httptest.NewTLSServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *played) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body ipam.Body
	err := json.NewDecoder(r.Body).Decode(&body)
	p.mu.Lock()
	defer p.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/"+p.cluster+"/")
	p.calls = append(p.calls, r.Method+" "+path)
	switch {
	case err != nil || r.Header.Get("Authorization") != "Bearer good" || path == r.URL.Path:
		w.WriteHeader(http.StatusBadRequest)
	case p.status != 0:
		w.WriteHeader(p.status)
	case r.Method == http.MethodDelete:
		if p.has[path] != "" {
			p.free = append(p.free, p.has[path])
		}
		delete(p.has, path)
		w.WriteHeader(http.StatusNoContent)
	case p.lost:
		p.put(httptest.NewRecorder(), path, body)
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		p.put(w, path, body)
	}
}

func (p *played) put(w http.ResponseWriter, path string, body ipam.Body) {
	if from := body.From + "/" + body.Family; body.From != "" && p.has[path] == "" && p.has[from] == body.Address {
		p.has[path] = body.Address
		delete(p.has, from)
	}
	for i, address := range p.free {
		if p.has[path] == "" && (body.Wanted == "" || body.Wanted == address) && strings.Contains(address, ":") == (body.Family == "ipv6") {
			p.has[path] = address
			p.free = append(p.free[:i:i], p.free[i+1:]...)
			break
		}
	}
	if p.has[path] == "" {
		w.WriteHeader(http.StatusConflict)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]string{"address": p.has[path]})
}

// called counts the calls with that method.
func (p *played) called(method string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, call := range p.calls {
		if strings.HasPrefix(call, method+" ") {
			n++
		}
	}
	return n
}

// now changes it.
func (p *played) now(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *played) state() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []string
	for path, address := range p.has {
		list = append(list, path+"="+address)
	}
	slices.Sort(list)
	return fmt.Sprint(list)
}

// pool is AddressPool lan, with this IPAM.
func (p *played) pool(ranges ...string) *v1alpha1.AddressPool {
	pool := addressPool("lan", ranges...)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})
	pool.Spec.IPAM = &v1alpha1.PoolIPAM{
		URL: p.URL, CA: string(ca), TokenKey: "k", Timeout: metav1.Duration{Duration: time.Minute},
		RenewAfter: metav1.Duration{Duration: time.Hour},
	}
	return pool
}
