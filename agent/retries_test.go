package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// refusing is an API server that has a report, and answers who writes it with a code; 0: with nothing.
type refusing struct {
	code       int
	gets, puts int
}

// RoundTrip counts.
func (r *refusing) RoundTrip(request *http.Request) (*http.Response, error) {
	code, text := http.StatusOK, `{"metadata":{"name":"w1"}}`
	if request.Method == http.MethodGet {
		r.gets++
	} else {
		r.puts++
		code, text = r.code, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d}`, r.code)
	}
	if code == 0 {
		return nil, errors.New("connection refused")
	}
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(text)), Request: request,
	}, nil
}

// still is an informer of which nothing comes.
type still struct{ cache.SharedIndexInformer }

// HasSynced is true.
func (still) HasSynced() bool { return true }

// RunWithContext does nothing.
func (still) RunWithContext(context.Context) {}

// A report that is refused is tried again less and less, and at most once a second when something changes all the time.
func TestReports_Refused(t *testing.T) {
	for _, tt := range []struct {
		name        string
		code        int
		changes     time.Duration // between two
		least, most int           // how often it writes in two minutes
		reads       bool          // each time anew
	}{
		{name: "refused", code: http.StatusForbidden, changes: time.Hour, least: 7, most: 11},
		{name: "refused, with changes", code: http.StatusForbidden, changes: time.Second / 20, least: 90, most: 121},
		{name: "written by others", code: http.StatusConflict, changes: time.Hour, least: 90, most: 121, reads: true},
		{name: "deleted", code: http.StatusNotFound, changes: time.Hour, least: 90, most: 121, reads: true},
		{name: "ill", code: http.StatusInternalServerError, changes: time.Hour, least: 90, most: 121},
		{name: "away", changes: time.Hour, least: 90, most: 121},
		{name: "away, with changes", changes: time.Second / 20, least: 90, most: 121},
	} {
		for kind, reporter := range map[string]func(*objects.Client) (func(context.Context), func()){
			"NodeAgent": func(c *objects.Client) (func(context.Context), func()) {
				r := &reporter{node: "w1", agents: c.NodeAgents, nodes: still{}, changes: make(chan struct{}, 1)}
				return r.run, r.changed
			},
			"NodeRoutes": func(c *objects.Client) (func(context.Context), func()) {
				r, err := newRoutesReporter(c, "w1", still{}, func() ([]v1alpha1.AgentRoute, []v1alpha1.RouteProblem, bool) {
					return make([]v1alpha1.AgentRoute, 1), nil, true
				})
				must(t, err)
				r.own = newKnown(t)
				return r.run, r.changed
			},
		} {
			t.Run(kind+", "+tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := &refusing{code: tt.code}
					client, err := objects.New(&rest.Config{Host: "http://api", QPS: -1, Transport: server})
					if err != nil {
						t.Fatal(err)
					}
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute-time.Second/2) // which is no moment of a write
					defer cancel()
					run, changed := reporter(client)
					go wait.UntilWithContext(ctx, func(context.Context) { changed() }, tt.changes)
					run(ctx)
					gets := 1
					if tt.reads || kind == "NodeRoutes" { // which writes only what differs from what it has read
						gets = server.puts
					}
					cutShort := server.gets == gets+1 && gets > 1 // the last one had read, and was to write
					if n := server.puts; n < tt.least || n > tt.most || server.gets != gets && !cutShort {
						t.Errorf("%d writes, want %d to %d, and %d reads, want %d", n, tt.least, tt.most, server.gets, gets)
					}
				})
			})
		}
	}
}
