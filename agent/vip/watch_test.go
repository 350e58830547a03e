package vip

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// The agent reports what the static pod says, tells its changes, and reports nothing where none answers.
func TestVIPWatch(t *testing.T) {
	var says *v1alpha1.VIPReport
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if says == nil {
			w.WriteHeader(http.StatusNotFound) // a release before
			return
		}
		answer(func() v1alpha1.VIPReport { return *says })[statePath](w, r)
	}))
	defer server.Close()
	v := &Watch{url: server.URL + statePath}
	for _, want := range []*v1alpha1.VIPReport{nil, {Address: "192.0.2.10", Has: true, Votes: []string{"a"}}, nil} {
		says = want
		ctx, cancel := context.WithCancel(t.Context())
		changes := 0
		v.changed = func() { changes++; cancel() }
		before := v.last.Load()
		got, err := v.ask(ctx, server.Client())
		if (err == nil) != (want != nil) || err == nil && (got.Address != want.Address || !got.Has || len(got.Votes) != 1) {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
		if before == want {
			cancel()
			continue
		}
		v.Run(ctx)
		var status v1alpha1.NodeAgentStatus
		v.Report(&status)
		if (status.ControlPlaneVIP != nil) != (want != nil) || changes != 1 {
			t.Errorf("reported %+v after %d changes, want %+v", status.ControlPlaneVIP, changes, want)
		}
	}
}
