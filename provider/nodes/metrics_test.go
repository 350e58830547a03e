package nodes

import (
	"strings"
	"testing"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/ccmadm/ccmadm/provider/inventory"
)

// What /metrics shows after a question, a refusal and a deletion.
func TestMetrics(t *testing.T) {
	s := newSite(t, 30)
	s.metrics.register()
	s.metrics.match(string(inventory.ByName))
	s.metrics.rejected.WithLabelValues(string(inventory.OlderSerial)).Inc()
	s.metrics.called("InstanceExists", time.Now(), nil)
	s.runFor(t, 15*time.Minute, lists(30, 3), 3)

	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			words := []string{family.GetName()}
			for _, label := range metric.GetLabel() {
				words = append(words, label.GetValue())
			}
			got[strings.Join(words, " ")] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	for name, atLeast := range map[string]float64{
		"ccmadm_onprem_inventory_matches_total name":            1,
		"ccmadm_onprem_inventory_rejected_total OlderSerial":    1,
		"ccmadm_onprem_call_duration_seconds InstanceExists ok": 1,
		"ccmadm_onprem_deletion_refused_total StillTalking":     10,
		"ccmadm_onprem_deletion_refused_total Announced":        10,
		"ccmadm_onprem_deletions_total":                         1,
		"ccmadm_onprem_inventory_age_seconds":                   5, // since the last reading of runFor
	} {
		if got[name] < atLeast {
			t.Errorf("%s is %v, want %v or more", name, got[name], atLeast)
		}
	}
}
