package ipam

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
)

// A PUT that was not answered in time may be carried out after a DELETE: another DELETE follows once it cannot be any more.
func TestKeeper_LatePut(t *testing.T) {
	for _, forgets := range []bool{false, true} { // the quarantine between PUT and DELETE
		testLatePut(t, forgets)
	}
}

func testLatePut(t *testing.T, forgets bool) {
	t.Helper()
	var mu sync.Mutex
	var released []time.Time
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodPut {
			<-r.Context().Done()
			return
		}
		mu.Lock()
		defer mu.Unlock()
		released = append(released, time.Now())
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	k, o := keeper(t, noTokens), orderFor(server, "lan", "u1")
	o.IPAM.Timeout.Duration = time.Second
	began := time.Now() // the PUT is given up a second later, whenever this test hears of that
	k.Set(map[allocator.LeaseKey]Order{o.Key: o})
	lease(t, k, o, func(l allocator.Lease) bool { return strings.Contains(l.Problem, "has not answered within") })
	if forgets {
		k.Set(nil)
	}
	o.Release = true
	k.Set(map[allocator.LeaseKey]Order{o.Key: o})
	lease(t, k, o, func(l allocator.Lease) bool { return l.Released })
	mu.Lock()
	defer mu.Unlock()
	if last := released[len(released)-1]; last.Sub(began) < 1900*time.Millisecond {
		t.Errorf("forgets %t: released %s after the PUT, which is given up after a second", forgets, last.Sub(began))
	}
}

// An answer that cannot be used is given back after renewAfter, and then another one is asked for.
func TestKeeper_Unfit(t *testing.T) {
	var mu sync.Mutex
	address := "192.0.2.7"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodDelete {
			address = "192.0.2.8"
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_, _ = fmt.Fprintf(w, `{"address": %q}`, address)
	}))
	t.Cleanup(server.Close)
	k, o := keeper(t, noTokens), orderFor(server, "lan", "u1")
	k.Set(map[allocator.LeaseKey]Order{o.Key: o})
	lease(t, k, o, func(l allocator.Lease) bool { return l.Address.IsValid() })
	o.Unfit = true
	k.Set(map[allocator.LeaseKey]Order{o.Key: o})
	time.Sleep(2 * retryFirst) // it is asked again meanwhile
	if l := k.Leases()[o.Key]; l.Address != netip.MustParseAddr("192.0.2.7") {
		t.Errorf("before renewAfter the lease is %+v", l)
	}
	k.mu.Lock()
	k.entries[o.Key].unfit = time.Now().Add(-defaultRenew)
	k.mu.Unlock()
	lease(t, k, o, func(l allocator.Lease) bool { return l.Address == netip.MustParseAddr("192.0.2.8") })
}
