package ipam

import (
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/balancer/allocator"
	"github.com/ccmadm/ccmadm/provider/endpoint"
)

// Body is what an IPAM is sent. Fields are only added to it.
type Body struct {
	// Namespace and Name are those of the Service. They may be empty when an address is released.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// UID is that of the Service, and Pool the AddressPool.
	UID  string `json:"uid"`
	Pool string `json:"pool"`
	// Family is ipv4 or ipv6.
	Family string `json:"family"`
	// Address is the one that the Service has now; empty: none.
	Address string `json:"address,omitempty"`
	// Wanted is the only address that the Service takes; empty: any.
	Wanted string `json:"wanted,omitempty"`
	// From is under what the IPAM has the address until now, POOL/UID, if that is not POOL/UID of the path: it is to have it under that.
	From string `json:"from,omitempty"`
}

const (
	secret = v1alpha1.Namespace + "/" + v1alpha1.IPAMSecretName
	// tokensEvery is how often the Secret is read while calls need it.
	tokensEvery = 10 * time.Second
)

// result is what became of a call.
type result struct {
	address netip.Addr
	// refused: it gives no address. released: it has none any more.
	refused, released bool
	// unsure: the IPAM may still carry out the call.
	unsure  bool
	problem string
	after   time.Duration // that the IPAM wants to be left alone; 0: it does not say so
}

// failed says that the IPAM could not be asked.
func (r result) failed() bool { return r.problem != "" && !r.refused }

// apply changes what is known of a key. What an IPAM gave stays known while it cannot be asked.
func (r result) apply(l *allocator.Lease, o Order) {
	switch {
	case r.released:
		*l = allocator.Lease{Releasing: true, Released: true}
	case o.Release:
		l.Problem = r.problem
	case r.address.IsValid():
		*l = allocator.Lease{Wanted: o.Wanted, Address: r.address}
	case r.refused:
		*l = allocator.Lease{Wanted: o.Wanted, Refused: true, Problem: r.problem}
	case o.Address.IsValid(): // it does not wait
		l.Stale = true
	default:
		l.Wanted, l.Refused, l.Problem = o.Wanted, false, r.problem
	}
}

// call makes one call.
func (k *Keeper) call(ctx context.Context, o Order) result {
	token, problem := endpoint.Token(secret, k.tokensFor(ctx, o), o.IPAM.TokenKey)
	if problem != "" {
		return result{problem: "cannot be asked: " + problem}
	}
	method := http.MethodPut
	if o.Release {
		method = http.MethodDelete
	}
	a := endpoint.Endpoint{
		URL: address(o), CA: o.IPAM.CA, Token: token, Timeout: o.IPAM.Timeout.Duration, UserAgent: "ccmadm-cloud-controller-manager",
	}.Call(ctx, method, bodyOf(o))
	r := resultOf(o, a)
	r.unsure = !o.Release && (a.Status == 0 || a.Status == http.StatusGatewayTimeout)
	if r.refused {
		klog.InfoS("An IPAM gives no address", "pool", o.Key.Pool, "service", o.Service, "reason", r.problem, "error", errorIn(a.Body, token))
	}
	return r
}

// resultOf reads an answer.
func resultOf(o Order, a endpoint.Answer) result {
	r := result{problem: a.Problem}
	if a.Status == http.StatusTooManyRequests || a.Status == http.StatusServiceUnavailable {
		r.after = a.After
	}
	gone := a.Status == http.StatusNotFound && isObject(a.Body) // without one it is a wrong URL, or a proxy before the adapter
	switch {
	case o.Release && (gone || a.Problem == ""):
		return result{released: true}
	case o.Release:
		return r
	case gone, a.Status == http.StatusConflict:
		r.refused = true
		return r
	case a.Problem != "":
		return r
	}
	var answer struct {
		Address string `json:"address"`
	}
	if json.Unmarshal(a.Body, &answer) != nil {
		r.problem = "answers no JSON object with an address"
		return r
	}
	given, err := netip.ParseAddr(answer.Address)
	if err != nil || given.Zone() != "" || given.Is4In6() || given.Is6() != o.Key.IPv6 {
		r.problem = "answers what is no " + string(allocator.FamilyName(o.Key.IPv6)) + " address"
		return r
	}
	r.address = given
	return r
}

func isObject(body []byte) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal(body, &object) == nil && object != nil
}

// errorIn is what an IPAM says of its refusal, for the log: tenants do not read it.
func errorIn(body []byte, token string) string {
	var said struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &said) != nil {
		return ""
	}
	if token != "" {
		said.Error = strings.ReplaceAll(said.Error, token, "...")
	}
	return endpoint.Clip(said.Error)
}

// address is where a Service and family has its own resource.
func address(o Order) string {
	parts := []string{strings.TrimRight(o.IPAM.URL, "/")}
	for _, part := range []string{o.Cluster, o.Key.Pool, string(o.Key.UID), o.Key.Family()} {
		parts = append(parts, url.PathEscape(part))
	}
	return strings.Join(parts, "/")
}

func bodyOf(o Order) Body {
	b := Body{
		Namespace: o.Service.Namespace, Name: o.Service.Name, UID: string(o.Key.UID), Pool: o.Key.Pool, Family: o.Key.Family(),
		From: o.From.String(),
	}
	if o.Address.IsValid() {
		b.Address = o.Address.String()
	}
	if o.Wanted.IsValid() {
		b.Wanted = o.Wanted.String()
	}
	return b
}

// tokens are those of the Secret. What was read once stays while the API server does not answer.
type tokens struct {
	mu   sync.Mutex
	read time.Time
	data map[string][]byte // nil before it was read
}

// tokensFor reads the Secret if the order needs it: the manager may not watch Secrets, as it could then see more than this one.
func (k *Keeper) tokensFor(ctx context.Context, o Order) map[string][]byte {
	if o.IPAM.TokenKey == "" {
		return nil
	}
	t := &k.tokens
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.read) < tokensEvery {
		return t.data
	}
	t.read = time.Now()
	data, err := k.Tokens(ctx)
	switch {
	case err != nil:
		klog.ErrorS(err, "Cannot read tokens of IPAMs", "secret", secret)
	case data == nil:
		t.data = map[string][]byte{}
	default:
		t.data = data
	}
	return t.data
}
