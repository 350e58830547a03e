package ipam

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

func orderFor(server *httptest.Server, pool, uid string) Order {
	ca := ""
	if server.Certificate() != nil {
		ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	}
	return Order{
		LeaseCall: allocator.LeaseCall{Key: allocator.LeaseKey{Pool: pool, UID: types.UID(uid)}},
		IPAM:      v1alpha1.PoolIPAM{URL: server.URL + "/ipam/", CA: ca, Timeout: metav1.Duration{Duration: time.Minute}}, Cluster: "c1",
	}
}

func keeper(t *testing.T, tokens func() (map[string][]byte, error)) *Keeper {
	t.Helper()
	k := New(Settings{Tokens: func(context.Context) (map[string][]byte, error) { return tokens() }, Changed: func() {}})
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	running.Go(func() { k.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return k
}

func noTokens() (map[string][]byte, error) { return nil, nil }

// lease waits until there is something to say of the order.
func lease(t *testing.T, k *Keeper, o Order, so func(allocator.Lease) bool) allocator.Lease {
	t.Helper()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if l := k.Leases()[o.Key]; so(l) {
			return l
		} else if time.Since(began) > time.Minute {
			t.Fatalf("the lease is still %+v", l)
		}
	}
}

// eventually waits until it is so, however busy the machine is.
func eventually(t *testing.T, so func() bool) {
	t.Helper()
	for began := time.Now(); !so(); time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("not within a minute")
		}
	}
}

// Whatever an IPAM answers, what counts is one plain address of the family. What it says is not repeated.
func TestKeeper_Hostile(t *testing.T) {
	text := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code); _, _ = w.Write([]byte(body)) }
	}
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   allocator.Lease
	}{
		"an address": {text(200, `{"address": "192.0.2.7"}`), allocator.Lease{Address: netip.MustParseAddr("192.0.2.7")}},
		"created":    {text(201, `{"address": "192.0.2.7", "more": 1}`), allocator.Lease{Address: netip.MustParseAddr("192.0.2.7")}},
		"mapped":     {text(200, `{"address": "::ffff:192.0.2.7"}`), allocator.Lease{Problem: "answers what is no IPv4 address"}},
		"zone":       {text(200, `{"address": "fe80::1%eth0"}`), allocator.Lease{Problem: "answers what is no IPv4 address"}},
		"IPv6":       {text(200, `{"address": "2001:db8::1"}`), allocator.Lease{Problem: "answers what is no IPv4 address"}},
		"a prefix":   {text(200, `{"address": "192.0.2.7/24"}`), allocator.Lease{Problem: "answers what is no IPv4 address"}},
		"nothing":    {text(200, ""), allocator.Lease{Problem: "answers no JSON object with an address"}},
		"no address": {text(200, "{}"), allocator.Lease{Problem: "answers what is no IPv4 address"}},
		"garbage":    {text(200, "\x1b[31m<html>"), allocator.Lease{Problem: "answers no JSON object with an address"}},
		"huge":       {text(200, `{"address": "`+strings.Repeat("1", 1<<20)+`"}`), allocator.Lease{Problem: "answers no JSON object with an address"}},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, allocator.Lease{Problem: "answers 307, and redirects are not followed"}},
		"refused":    {text(409, `{"error": "secret"}`), allocator.Lease{Refused: true, Problem: "answers 409 Conflict"}},
		"unknown":    {text(404, "{}"), allocator.Lease{Refused: true, Problem: "answers 404 Not Found"}},
		"no adapter": {text(404, "<html>404 page not found"), allocator.Lease{Problem: "answers 404 Not Found"}},
		"later":      {text(503, ""), allocator.Lease{Problem: "answers 503 Service Unavailable"}},
		"dropped": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, allocator.Lease{
			Problem: "has ended the connection without an answer",
		}},
		"too slow": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, allocator.Lease{Problem: "has not answered within 1s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			paths := map[string]bool{}
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // or a connection that the client has ended is not noticed
				mu.Lock()
				paths[r.Method+" "+r.URL.Path] = true
				mu.Unlock()
				tt.answer(w, r)
			}))
			t.Cleanup(server.Close)
			k, o := keeper(t, noTokens), orderFor(server, "lan", "u1")
			if name == "too slow" { // the others have time: a machine that is busy answers none of a dozen servers within a second
				o.IPAM.Timeout.Duration = time.Second
			}
			k.Set(map[allocator.LeaseKey]Order{o.Key: o})
			if got := lease(t, k, o, func(l allocator.Lease) bool { return l != allocator.Lease{} }); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(paths) > 0 }) // a question may end before it has arrived
			mu.Lock()
			defer mu.Unlock()
			if !paths["PUT /ipam/c1/lan/u1/ipv4"] || len(paths) != 1 {
				t.Errorf("it was asked %v", paths)
			}
		})
	}
}

// An address is released once the adapter says so: a proxy before it that has no such path does not.
func TestKeeper_Released(t *testing.T) {
	for body, want := range map[string]allocator.Lease{
		"{}": {Releasing: true, Released: true}, `{"error": "no entry"}`: {Releasing: true, Released: true},
		"":                    {Releasing: true, Problem: "answers 404 Not Found"},
		"default backend 404": {Releasing: true, Problem: "answers 404 Not Found"},
		"null":                {Releasing: true, Problem: "answers 404 Not Found"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(server.Close)
		k, o := keeper(t, noTokens), orderFor(server, "lan", "u1")
		o.Release = true
		k.Set(map[allocator.LeaseKey]Order{o.Key: o})
		if got := lease(t, k, o, func(l allocator.Lease) bool { return l.Released || l.Problem != "" }); got != want {
			t.Errorf("%q: got %+v, want %+v", body, got, want)
		}
	}
}

// The token is that of the Secret, and is not sent to a server that the CA does not vouch for.
func TestKeeper_Token(t *testing.T) {
	var mu sync.Mutex
	var sent []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, r.Header.Get("Authorization"))
		_, _ = w.Write([]byte(`{"address": "192.0.2.7"}`))
	}))
	t.Cleanup(server.Close)
	other := httptest.NewTLSServer(nil)
	t.Cleanup(other.Close)
	foreign := orderFor(server, "foreign", "u1")
	foreign.IPAM.CA = strings.Replace(orderFor(other, "", "").IPAM.CA, "MII", "MIA", 1)
	for _, tt := range []struct {
		name   string
		tokens func() (map[string][]byte, error)
		order  Order
		want   string
	}{
		{"no Secret", noTokens, orderFor(server, "lan", "u1"), `cannot be asked: Secret kube-system/ccmadm-ipam has no key "k"`},
		{
			"may not be read", func() (map[string][]byte, error) { return nil, errors.New("forbidden") }, orderFor(server, "lan", "u1"),
			"cannot be asked: Secret kube-system/ccmadm-ipam was not read yet",
		},
		{"a broken CA", func() (map[string][]byte, error) { return map[string][]byte{"k": []byte("t")}, nil }, foreign, "its ca holds no certificate"},
		{"a token", func() (map[string][]byte, error) { return map[string][]byte{"k": []byte("t\n")}, nil }, orderFor(server, "lan", "u1"), ""},
	} {
		k := keeper(t, tt.tokens)
		tt.order.IPAM.TokenKey = "k"
		k.Set(map[allocator.LeaseKey]Order{tt.order.Key: tt.order})
		l := lease(t, k, tt.order, func(l allocator.Lease) bool { return l != allocator.Lease{} })
		if l.Problem != tt.want || (tt.want == "") != l.Address.IsValid() {
			t.Errorf("%s: got %+v, want %q", tt.name, l, tt.want)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(sent) != 1 || sent[0] != "Bearer t" {
		t.Errorf("it was sent %q", sent)
	}
}

// A thousand Services with a slow IPAM: few calls at once, never two for one Service, and no other pool waits.
func TestKeeper_Bounded(t *testing.T) {
	var mu sync.Mutex
	running, most, total, before := map[string]int{}, 0, 0, 0
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		running[r.URL.Path]++
		if running[r.URL.Path] > 1 {
			t.Errorf("two calls for %s", r.URL.Path)
		}
		total++
		most = max(most, len(running))
		n := total
		mu.Unlock()
		time.Sleep(20 * time.Millisecond)
		mu.Lock()
		delete(running, r.URL.Path)
		mu.Unlock()
		_, _ = fmt.Fprintf(w, `{"address": "10.0.%d.%d"}`, n/250, n%250)
	}))
	t.Cleanup(slow.Close)
	fast := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		before = total
		mu.Unlock()
		_, _ = w.Write([]byte(`{"address": "192.0.2.7"}`))
	}))
	t.Cleanup(fast.Close)
	k, orders := keeper(t, noTokens), map[allocator.LeaseKey]Order{}
	for i := range 1000 {
		o := orderFor(slow, "slow", fmt.Sprint("u", i))
		orders[o.Key] = o
	}
	k.Set(orders)
	other := orderFor(fast, "fast", "u1")
	orders[other.Key] = other
	k.Set(orders)
	lease(t, k, other, func(l allocator.Lease) bool { return l.Address.IsValid() })
	mu.Lock()
	if before > 500 {
		t.Errorf("the other pool was asked after %d calls of the slow one", before)
	}
	mu.Unlock()
	for began, left := time.Now(), 1; left > 0; time.Sleep(50 * time.Millisecond) {
		k.Set(orders) // as each pass does
		left = len(orders)
		for _, l := range k.Leases() {
			if l.Address.IsValid() {
				left--
			}
		}
		if time.Since(began) > 2*time.Minute {
			t.Fatalf("%d are not answered", left)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if most > maxCalls || most < maxCalls/2 || total != 1000 {
		t.Errorf("%d calls at once, %d in all; want at most %d and 1000", most, total, maxCalls)
	}
}

// Retry-After holds for all Services of the pool. A release takes the place of a question, and the answer of that one does not count.
func TestKeeper_Changes(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	hold := make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Method)
		mu.Unlock()
		switch {
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte("{}"))
		case strings.Contains(r.URL.Path, "/busy/"):
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			<-hold
			_, _ = w.Write([]byte(`{"address": "192.0.2.7"}`))
		}
	}))
	t.Cleanup(server.Close)
	k, o := keeper(t, noTokens), orderFor(server, "lan", "u1")
	k.Set(map[allocator.LeaseKey]Order{o.Key: o})
	asked := func() bool { mu.Lock(); defer mu.Unlock(); return len(seen) > 0 }
	eventually(t, asked)
	o.Release = true
	k.Set(map[allocator.LeaseKey]Order{o.Key: o})
	close(hold)
	if l := lease(t, k, o, func(l allocator.Lease) bool { return l.Released || l.Address.IsValid() }); !l.Released {
		t.Errorf("after the release the lease is %+v", l)
	}
	mu.Lock()
	if got := strings.Join(seen, " "); got != "PUT DELETE" {
		t.Errorf("calls: %s", got)
	}
	seen = nil
	mu.Unlock()
	orders := map[allocator.LeaseKey]Order{}
	for i := range 50 {
		busy := orderFor(server, "busy", fmt.Sprint("u", i))
		orders[busy.Key] = busy
	}
	k.Set(orders)
	eventually(t, asked)
	time.Sleep(2 * time.Second) // a retry would be due
	mu.Lock()
	defer mu.Unlock()
	if len(seen) == 0 || len(seen) > maxCalls*2 {
		t.Errorf("%d calls of an IPAM that wants to be left alone", len(seen))
	}
}

// Another URL is asked at once, whatever the former one wanted, and only an IPAM that is busy is left alone.
func TestKeeper_HoldEnds(t *testing.T) {
	answer := func(status int) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"address": "192.0.2.7"}`))
		}))
		t.Cleanup(s.Close)
		return s
	}
	busy, broken, good := answer(http.StatusServiceUnavailable), answer(http.StatusInternalServerError), answer(http.StatusOK)
	for name, first := range map[string]*httptest.Server{"busy": busy, "broken": broken} {
		k, o := keeper(t, noTokens), orderFor(first, "lan", "u1")
		k.Set(map[allocator.LeaseKey]Order{o.Key: o})
		lease(t, k, o, func(l allocator.Lease) bool { return l.Problem != "" })
		k.mu.Lock()
		if held := !k.holds["lan"].IsZero(); held != (name == "busy") {
			t.Errorf("%s: held: %t", name, held)
		}
		k.mu.Unlock()
		o.IPAM.URL = good.URL
		k.Set(map[allocator.LeaseKey]Order{o.Key: o})
		lease(t, k, o, func(l allocator.Lease) bool { return l.Address.IsValid() })
	}
}
