package contexts

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/doctor/diagnosis"
)

func TestAsk_Findings(t *testing.T) {
	o := Options{Timeout: 10 * time.Second, AtOnce: 1}
	c := []Context{to("a", server(t, cluster(false, true)))}
	o.Diagnose = func(context.Context, string, kubernetes.Interface) (*diagnosis.Snapshot, *diagnosis.Diagnosis, error) {
		return nil, nil, errors.New("look at the cluster: no")
	}
	if r := o.Ask(t.Context(), c)[0]; r.findingsCell() != unknown || r.NotSeen[partFindings] == "" {
		t.Errorf("a doctor that cannot look has %q: %+v", r.findingsCell(), r)
	}
	o.Diagnose = func(ctx context.Context, _ string, client kubernetes.Interface) (*diagnosis.Snapshot, *diagnosis.Diagnosis, error) {
		s, err := diagnosis.Gather(ctx, client)
		if err != nil {
			return nil, nil, err
		}
		d := diagnosis.Diagnose(s)
		return s, d, nil
	}
	if r := o.Ask(t.Context(), c)[0]; r.Findings == nil || r.Findings.NotSeen == 0 || !strings.HasSuffix(r.findingsCell(), "+"+unknown) {
		t.Errorf("a doctor that has not seen all has %q: %+v", r.findingsCell(), r.Findings)
	}
}

// With the doctor a cluster's Nodes are read once, and the row is the one that they have without it.
func TestAsk_ReadsNodesOnce(t *testing.T) {
	var lists atomic.Int32
	answer := cluster(true, true)
	c := []Context{to("a", server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/nodes" {
			lists.Add(1)
		}
		answer(w, r)
	}))}
	o := Options{Timeout: 10 * time.Second, AtOnce: 1}
	alone := o.Ask(t.Context(), c)[0]
	lists.Store(0)
	o.Diagnose = func(ctx context.Context, name string, client kubernetes.Interface) (*diagnosis.Snapshot, *diagnosis.Diagnosis, error) {
		s, err := diagnosis.Gather(ctx, client)
		if err != nil || name != "a" {
			t.Errorf("%s: %v", name, err)
			return nil, nil, err
		}
		return s, diagnosis.Diagnose(s), nil
	}
	row := o.Ask(t.Context(), c)[0]
	if lists.Load() != 1 || row.Nodes == nil || alone.Nodes == nil || row.Nodes.Ready != 1 || row.Nodes.NotInitialized != 1 ||
		row.Leader != alone.Leader || len(row.Wrong) != len(alone.Wrong) {
		t.Errorf("Nodes were listed %d times:\n%+v %+v\n%+v %+v", lists.Load(), row, row.Nodes, alone, alone.Nodes)
	}
}
