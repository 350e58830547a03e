package hook

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/ccmadm/ccmadm/provider/endpoint"
)

// Body is what an endpoint is sent. Fields are only added to it.
type Body struct {
	// Address is to be routed to the Node.
	Address string `json:"address"`
	// Node is the name of the one that owns the address, and ProviderID and InternalIPs are how a provider may know its machine.
	Node        string   `json:"node"`
	ProviderID  string   `json:"providerID"`
	InternalIPs []string `json:"internalIPs"`
	// Pool is the AddressPool, and Services are those that have the address, NAMESPACE/NAME; the first 50 by name, if there are more.
	Pool     string   `json:"pool"`
	Services []string `json:"services"`
	// Generation is greater with each owner: an endpoint refuses a call whose number is less than the greatest that it has seen for the
	// address, by status 409 and an object with that number.
	Generation int64 `json:"generation"`
}

const (
	// maxServices is how many of the Services that share an address are sent: receivers refuse bodies that are too long.
	maxServices = 50
	// maxGeneration is the greatest one that an endpoint may have seen: programs that read JSON into floating-point numbers hold no more.
	maxGeneration = 1<<53 - 1
)

// answer is what became of a call.
type answer struct {
	problem  string        // why it has failed; empty: it has not
	known    int64         // the greatest generation that the endpoint has seen, if it refuses ours for that; else 0
	after    time.Duration // when the endpoint wants to be asked again
	lost     bool          // there was none, since this Node does not own the address
	outdated bool          // it does not count, since the hook, its token or the Node have changed
	held     time.Duration // there was none, since the endpoint wants to be left alone for this time
}

// result is that of metrics.
func (a answer) result() string {
	switch {
	case a.known > 0:
		return "refused"
	case a.problem != "":
		return "failed"
	}
	return "ok"
}

// send makes one call.
func send(ctx context.Context, want order) answer {
	a := endpoint.Endpoint{
		URL: want.hook.URL, CA: want.hook.CA, Token: want.token, Timeout: want.hook.Timeout.Duration, UserAgent: "ccmadm-node-agent",
	}.Call(ctx, http.MethodPut, want.body)
	var known struct {
		Generation int64 `json:"generation"`
	}
	if a.Status != http.StatusConflict || json.Unmarshal(a.Body, &known) != nil || known.Generation <= 0 || known.Generation >= maxGeneration {
		known.Generation = 0
	}
	return answer{problem: a.Problem, after: a.After, known: known.Generation}
}
