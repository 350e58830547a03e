package lbtest

import (
	"net/http"

	"k8s.io/client-go/rest"
)

// worlds is how many there are at a time: each asks the API server a hundred times a second.
const worlds = 4

var turns = make(chan struct{}, worlds)

// own is the cluster of this world: the only Node is its own.
func (w *world) own(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return ownNode{next, w.node} })
	return config
}

// ownNode lists one Node of all.
type ownNode struct {
	next http.RoundTripper
	name string
}

func (o ownNode) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/api/v1/nodes" {
		r = r.Clone(r.Context())
		query := r.URL.Query()
		query.Set("fieldSelector", "metadata.name="+o.name)
		r.URL.RawQuery = query.Encode()
	}
	return o.next.RoundTrip(r)
}
