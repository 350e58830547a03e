package hook

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/announce"
)

// cloud is the API of a provider beyond a receiver that keeps the rule of generations.
type cloud struct {
	mu     sync.Mutex
	routes map[string]Body // by address
	calls  []Body
	before func(Body) // is called before a request is looked at
}

func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body Body
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.Method != http.MethodPut {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if c.before != nil {
		c.before(body)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, body)
	if known := c.routes[body.Address]; known.Generation > body.Generation {
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(map[string]int64{"generation": known.Generation})
		return
	}
	c.routes[body.Address] = body
}

func (c *cloud) route(address string) Body {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.routes[address]
}

// serve runs an endpoint of https and returns its hook.
func serve(t *testing.T, handler http.Handler) v1alpha1.PoolHook {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return v1alpha1.PoolHook{URL: server.URL + "/route", CA: string(ca)}
}

// hang answers nothing until the client has gone, which a server notices once the request is read.
func hang(r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// log collects what is logged.
type log struct {
	mu   sync.Mutex
	text string
}

func (l *log) logger() logr.Logger {
	return funcr.New(func(_, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.text += args + "\n"
	}, funcr.Options{Verbosity: 9})
}

// agent is a Caller of a Node, and what it has said.
type agent struct {
	*Caller
	log log

	mu     sync.Mutex
	lost   bool
	tokens map[string][]byte
	events []string
	counts map[string]int
}

func newAgent() *agent {
	a := &agent{tokens: map[string][]byte{}, counts: map[string]int{}}
	a.Caller = New(Options{
		Tokens:  func() map[string][]byte { a.mu.Lock(); defer a.mu.Unlock(); return a.tokens },
		Owns:    func(netip.Addr) bool { a.mu.Lock(); defer a.mu.Unlock(); return !a.lost },
		Changed: func() {},
		Failed: func(_ announce.Claim, message string) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.events = append(a.events, message)
		},
		Observe: func(result string, _ time.Duration) { a.mu.Lock(); defer a.mu.Unlock(); a.counts[result]++ },
		Log:     a.log.logger(),
	})
	return a
}

func (a *agent) do(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

func (a *agent) said() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.events...)
}

// reports is what a report says of an address.
func (a *agent) reports(address string) string {
	status := v1alpha1.NodeAgentStatus{Announcements: []v1alpha1.Announcement{{Address: address, Level: v1alpha1.LevelL2}}}
	a.Report(&status)
	return status.Announcements[0].Hook
}

// view has a pool for each hook, and as many addresses in each.
func view(node string, hooks map[string]v1alpha1.PoolHook, addresses map[string][]string) *announce.View {
	v := &announce.View{
		Node: node, Pools: map[string]*v1alpha1.AddressPool{},
		Nodes: map[string]*corev1.Node{node: {
			ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: corev1.NodeSpec{ProviderID: "cloud://" + node},
			Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeHostName, Address: node},
				{Type: corev1.NodeInternalIP, Address: "192.0.2.11"},
				{Type: corev1.NodeInternalIP, Address: "2001:db8::11"},
			}},
		}},
	}
	for name, hook := range hooks {
		v.Pools[name] = &v1alpha1.AddressPool{Spec: v1alpha1.AddressPoolSpec{Hook: &hook}}
		for _, address := range addresses[name] {
			v.Claims = append(v.Claims, announce.Claim{
				Address: netip.MustParseAddr(address), Level: v1alpha1.LevelL2, Pool: name,
				Services: []types.NamespacedName{{Namespace: "shop", Name: "web"}, {Namespace: "shop", Name: "api"}},
			})
		}
	}
	return v
}
