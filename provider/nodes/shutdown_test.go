package nodes

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/provider/inventory"
)

func TestInstanceShutdown(t *testing.T) {
	i, _ := withInventory(t, listed)
	i.config.Inventory = &config.InventorySource{MaxAge: metav1.Duration{Duration: 10 * time.Minute}}
	for id, want := range map[string]bool{
		"onprem://ber1/r1": false, "onprem://ber1/r2": true, "onprem://ber1/r9": false, "onprem://ham1/r2": false, "kwok://r2": false, "": false,
	} {
		node := ready(withProviderID(shows("w2", ""), id), corev1.ConditionUnknown)
		if got, _ := i.InstanceShutdown(t.Context(), node); got != want {
			t.Errorf("%q: got %v", id, got)
		}
	}
}

// That a machine is off has its volumes attached elsewhere: an inventory that may be wrong by now does not say so.
func TestInstanceShutdown_NotUpToDate(t *testing.T) {
	const maxAge = 10 * time.Minute
	for _, tt := range []struct {
		name    string
		has     func(s *inventory.Store, later func(time.Duration)) error
		wantErr string
	}{
		{"copy of an earlier process", func(s *inventory.Store, _ func(time.Duration)) error {
			return s.Restore(inventory.Saved{Document: []byte(listed)})
		}, "not up to date"},
		{"source that is away", func(s *inventory.Store, _ func(time.Duration)) error {
			_, _ = s.Offer([]byte(listed), nil)
			_, _ = s.Offer(nil, errors.New("connection refused"))
			return nil
		}, "not up to date"},
		{"old", func(s *inventory.Store, later func(time.Duration)) error {
			_, _ = s.Offer([]byte(listed), nil)
			later(maxAge + time.Second)
			return nil
		}, "not up to date"},
		{"confirmed since", func(s *inventory.Store, later func(time.Duration)) error {
			_, _ = s.Offer([]byte(listed), nil)
			later(maxAge + time.Second)
			_, _ = s.Offer([]byte(listed), nil)
			later(maxAge)
			return nil
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			store := inventory.NewStore(inventory.Limits{}, func() time.Time { return now })
			if err := tt.has(store, func(d time.Duration) { now = now.Add(d) }); err != nil {
				t.Fatal(err)
			}
			i, _ := withInventory(t, "")
			i.machines = newMachines(store, i.metrics)
			i.config.Inventory = &config.InventorySource{MaxAge: metav1.Duration{Duration: maxAge}}
			off, err := i.InstanceShutdown(t.Context(), withProviderID(shows("w2", ""), "onprem://ber1/r2"))
			if off != (tt.wantErr == "") || (err == nil) != (tt.wantErr == "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("got %t, %v, want an error with %q", off, err, tt.wantErr)
			}
			if off, err := i.InstanceShutdown(t.Context(), withProviderID(shows("w1", ""), "onprem://ber1/r1")); off || err != nil {
				t.Errorf("a machine that was on: got %t, %v", off, err)
			}
		})
	}
}
