package vip

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/changes"
)

// Watch asks the static pod on this machine for its report, for that of the agent.
type Watch struct {
	url     string
	changed func()
	last    atomic.Pointer[v1alpha1.VIPReport]
}

// NewWatch asks at [MetricsAddress], and calls changed when the answer is another one.
func NewWatch(changed func()) *Watch {
	return &Watch{url: "http://" + MetricsAddress + statePath, changed: changed}
}

// Run asks each second until ctx is done. A machine without the pod has no report.
func (v *Watch) Run(ctx context.Context) {
	client := &http.Client{Timeout: time.Second}
	for ; ctx.Err() == nil; changes.Sleep(ctx, keepInterval) {
		next, err := v.ask(ctx, client)
		if err != nil {
			next = nil
		}
		if before := v.last.Swap(next); !equality.Semantic.DeepEqual(before, next) {
			v.changed()
		}
	}
}

func (v *Watch) ask(ctx context.Context, client *http.Client) (*v1alpha1.VIPReport, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, v.url, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask %s: %s", v.url, response.Status)
	}
	r := &v1alpha1.VIPReport{}
	return r, json.NewDecoder(http.MaxBytesReader(nil, response.Body, 1<<16)).Decode(r)
}

// Report adds what the static pod said last.
func (v *Watch) Report(status *v1alpha1.NodeAgentStatus) { status.ControlPlaneVIP = v.last.Load() }
