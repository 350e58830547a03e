package agent

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// cutting is an API server whose answers to writes do not arrive before the request is given up, as long as it is cut off.
type cutting struct {
	recording
	off atomic.Bool
}

// RoundTrip waits until its caller has given up.
func (c *cutting) RoundTrip(request *http.Request) (*http.Response, error) {
	if c.off.Load() && request.Method == http.MethodPut {
		<-request.Context().Done()
		c.off.Store(false)
		return nil, request.Context().Err()
	}
	return c.recording.RoundTrip(request)
}

// What changed last is written before the agent ends, wherever in its round it was when it was told to end.
func TestOwnObject_Finish(t *testing.T) {
	for name, end := range map[string]func(server *cutting, changed, cancel func()){
		"at rest":            func(_ *cutting, changed, cancel func()) { changed(); cancel() },
		"as it is written":   func(_ *cutting, changed, cancel func()) { changed(); synctest.Wait(); cancel() },
		"while it is paused": func(_ *cutting, changed, cancel func()) { changed(); time.Sleep(gather / 2); cancel() },
		"a write is cut short": func(server *cutting, changed, cancel func()) {
			server.off.Store(true)
			changed()
			time.Sleep(time.Second)
			cancel()
		},
		"a write has failed": func(server *cutting, changed, cancel func()) {
			server.ill.Store(true)
			changed()
			time.Sleep(gather)
			server.ill.Store(false)
			cancel()
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // where two things happen at once, either may be seen first
				synctest.Test(t, func(t *testing.T) { finishes(t, end) })
			}
		})
	}
}

// finishes has an agent that announced two addresses announce three, and end.
func finishes(t *testing.T, end func(server *cutting, changed, cancel func())) {
	t.Helper()
	server, said, r := &cutting{}, &saying{}, &reader{}
	server.keep(t, "nodeannouncements", &v1alpha1.NodeAnnouncements{})
	client, err := objects.New(&rest.Config{Host: "http://api", QPS: -1, Transport: server})
	must(t, err)
	a, err := newApart(client, "w1", newKnown(t), r, said.add, func() {})
	must(t, err)
	a.own = newKnown(t)
	said.set(announcing(2))
	r.trust(time.Now(), time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { a.run(ctx) })
	time.Sleep(time.Second)
	said.set(announcing(3))
	end(server, a.changed, cancel)
	running.Wait()
	var apart v1alpha1.NodeAnnouncements
	if server.get(t, "nodeannouncements", &apart); len(apart.Announcements) != 3 {
		t.Errorf("at the end there are %d announcements, want 3", len(apart.Announcements))
	}
}
