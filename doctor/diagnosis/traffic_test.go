package diagnosis

import (
	"net/http"
	"sync"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// client counts its requests.
func client(config *rest.Config, count *traffic) kubernetes.Interface {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 50, 100
	config.ContentType = apiruntime.ContentTypeProtobuf
	config.AcceptContentTypes = apiruntime.ContentTypeProtobuf + "," + apiruntime.ContentTypeJSON
	if count != nil {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				count.add(r)
				return next.RoundTrip(r)
			})
		})
	}
	return kubernetes.NewForConfigOrDie(config)
}

// traffic is all requests of a client, and how many lists it has begun of each resource and namespace.
type traffic struct {
	mu    sync.Mutex
	all   int
	lists map[string]int
}

func (q *traffic) add(r *http.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.all++
	if query := r.URL.Query(); query.Has("limit") && !query.Has("continue") {
		q.lists[r.URL.Path]++
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
