package nodes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/provider/inventory"
)

// site is a lifecycle whose surroundings are set by hand.
type site struct {
	*lifecycle
	at           time.Time
	all          []*corev1.Node
	heartbeats   map[string]string
	heartbeatErr error
	deletedErr   error
	kept         map[types.UID]time.Time
	warnings     []string
	finalizer    bool  // keeps Nodes that are deleted
	refused      []int // Nodes that the API server does not delete
	tried        map[int][]time.Time
}

func (s *site) Deletions(context.Context) (map[types.UID]time.Time, error) {
	return maps.Clone(s.kept), s.deletedErr
}

func (s *site) SaveDeletions(_ context.Context, _ int, deletions map[types.UID]time.Time) error {
	if s.deletedErr == nil {
		s.kept = deletions
	}
	return s.deletedErr
}

// recorder notes Events.
type recorder struct{ *site }

func (r recorder) Event(_ runtime.Object, _, reason, message string) {
	r.warnings = append(r.warnings, reason+": "+message)
}

func (r recorder) Eventf(_ runtime.Object, _, reason, format string, args ...any) {
	r.warnings = append(r.warnings, reason+": "+fmt.Sprintf(format, args...))
}

func (r recorder) AnnotatedEventf(o runtime.Object, _ map[string]string, kind, reason, format string, args ...any) {
	r.Eventf(o, kind, reason, format, args...)
}

func newSite(t *testing.T, n int) *site {
	t.Helper()
	s := &site{
		at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), heartbeats: map[string]string{},
		kept: map[types.UID]time.Time{},
	}
	now := func() time.Time { return s.at }
	store := inventory.NewStore(inventory.Limits{MaxLossPercent: 100}, now)
	config := config.InventorySource{File: "unused"}
	config.Default()
	var index cache.Indexer
	s.lifecycle = newLifecycle(config, store, newMetrics(store, now), now, cluster{
		nodes: func(context.Context) (cache.Indexer, error) {
			if index == nil || len(index.ListKeys()) != len(s.all) {
				index = indexed(t, s.all)
			}
			return index, nil
		},
		heartbeat: func(_ context.Context, node *corev1.Node) (string, error) {
			return s.heartbeats[node.Name], s.heartbeatErr
		},
		warn:      newEvents(recorder{s}, now).warn,
		deletions: s,
	})
	for i := range n {
		node := withProviderID(shows(fmt.Sprintf("w%d", i), ""), fmt.Sprintf("onprem://ber1/m%d", i))
		node.Labels = map[string]string{v1alpha1.MachineLabel: fmt.Sprintf("m%d", i)}
		s.all = append(s.all, node)
	}
	return s
}

// lists n machines, of which some are decommissioned.
func lists(n int, decommissioned ...int) []byte {
	document := []byte("apiVersion: ccmadm.dev/v1alpha1\nkind: Inventory\nmetadata: {site: ber1}\nmachines:\n")
	for i := range n {
		state := "active"
		for _, d := range decommissioned {
			if d == i {
				state = "decommissioned"
			}
		}
		document = fmt.Appendf(document, "- {id: m%d, state: %s}\n", i, state)
	}
	return document
}

// runFor asks about the Nodes every 5 seconds, as upstream does, and returns those
// that are gone, and when.
func (s *site) runFor(t *testing.T, d time.Duration, document []byte, ask ...int) map[int]time.Duration {
	t.Helper()
	gone, start := map[int]time.Duration{}, s.at
	for end := s.at.Add(d); s.at.Before(end); s.at = s.at.Add(5 * time.Second) {
		_, _ = s.store.Offer(document, nil)
		for _, n := range ask {
			_, before := gone[n]
			if before && !s.finalizer && !slices.Contains(s.refused, n) {
				continue
			}
			exists, _ := s.exists(t.Context(), s.all[n])
			if !exists && s.tried != nil {
				s.tried[n] = append(s.tried[n], s.at)
			}
			if !exists && !before {
				gone[n] = s.at.Sub(start)
				if s.finalizer {
					s.all[n].DeletionTimestamp = &metav1.Time{Time: s.at}
				}
			}
		}
	}
	return gone
}

func TestLifecycle_TwoSteps(t *testing.T) {
	s := newSite(t, 30)
	gone := s.runFor(t, 15*time.Minute, lists(30, 3), 3)
	// A minute as leader, five of silence, five after the announcement.
	if at, ok := gone[3]; !ok || at < 11*time.Minute || at > 11*time.Minute+10*time.Second {
		t.Errorf("got %v (warnings %q)", gone, s.warnings)
	}
	if len(s.warnings) != 1 || !strings.Contains(s.warnings[0], "the Node will be deleted after 2026-01-01T00:11:") {
		t.Errorf("got warnings %q", s.warnings)
	}
}

func TestLifecycle_Keeps(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*site)
	}{
		{"a dry run", func(s *site) { s.config.DryRun = true }},
		{"nobody can tell whether it talks", func(s *site) { s.heartbeatErr = errors.New("forbidden") }},
		{"another Node by its own word", func(s *site) { s.all[3].Spec.ProviderID = "onprem://ber1/m4" }},
		{"nobody can tell what was deleted lately", func(s *site) { s.deletedErr = errors.New("forbidden") }},
		{"a foreign Node", func(s *site) { s.all[3].Spec.ProviderID = "kwok://m3" }},
		{"a Node without identity", func(s *site) { s.all[3].Spec.ProviderID = "" }},
		{"a control plane", func(s *site) { s.all[3].Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, 30)
			tt.change(s)
			if gone := s.runFor(t, 30*time.Minute, lists(30, 3), 3); len(gone) > 0 {
				t.Errorf("gone: %v", gone)
			}
		})
	}
}

func TestLifecycle_Withdraws(t *testing.T) {
	s := newSite(t, 30)
	s.runFor(t, 8*time.Minute, lists(30, 3), 3)
	if len(s.warnings) != 1 {
		t.Fatalf("got warnings %q, want the announcement", s.warnings)
	}
	s.runFor(t, time.Minute, lists(30), 3) // active again
	if gone := s.runFor(t, 9*time.Minute, lists(30, 3), 3); len(gone) > 0 {
		t.Errorf("gone %v after a new decision: the old announcement counts", gone)
	}
	s.heartbeats["w3"] = "it talks"
	if gone := s.runFor(t, 9*time.Minute, lists(30, 3), 3); len(gone) > 0 {
		t.Errorf("gone %v though it talked", gone)
	}
}

// A machine that was renamed has two Nodes for a while. The old one goes only if
// the inventory says which name is the new one: without that it may be a clone.
func TestLifecycle_Renamed(t *testing.T) {
	for _, tt := range []struct {
		name     string
		hostname string
		other    corev1.ConditionStatus
		wantGone bool
		wantWarn string
	}{
		{
			name:     "the inventory has the new name",
			hostname: "new",
			other:    corev1.ConditionTrue,
			wantGone: true,
			wantWarn: "under another name",
		},
		{name: "the new Node is not Ready", hostname: "new", other: corev1.ConditionFalse},
		{name: "no name is listed", other: corev1.ConditionTrue, wantWarn: "MachineTaken"},
		{name: "the old name is listed", hostname: "w3", other: corev1.ConditionTrue, wantWarn: "MachineTaken"},
		{name: "a third name is listed", hostname: "w99", other: corev1.ConditionTrue, wantWarn: "MachineTaken"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, 30)
			s.all = append(s.all, ready(withProviderID(shows("new", ""), "onprem://ber1/m3"), tt.other))
			document := strings.Replace(string(lists(30)), "id: m3,", "id: m3, hostname: '"+tt.hostname+"',", 1)
			gone := s.runFor(t, 15*time.Minute, []byte(document), 3)
			if (len(gone) > 0) != tt.wantGone {
				t.Errorf("got %v", gone)
			}
			if got := strings.Join(s.warnings, "\n"); !strings.Contains(got, tt.wantWarn) || tt.wantWarn == "" && got != "" {
				t.Errorf("got warnings %q, want %q", got, tt.wantWarn)
			}
		})
	}
}

func TestLifecycle_Budget(t *testing.T) {
	s := newSite(t, 30)
	gone := s.runFor(t, 30*time.Minute, lists(30, 1, 2), 1, 2)
	if len(gone) != 2 || (gone[1]-gone[2]).Abs() < 10*time.Minute {
		t.Errorf("gone %v, want two that are ten minutes apart", gone)
	}
}

// A Node that is deleted, and kept by a finalizer, uses the budget once: the next one goes ten minutes after it.
func TestLifecycle_BudgetOfOneThatStays(t *testing.T) {
	s := newSite(t, 30)
	s.finalizer = true
	if gone := s.runFor(t, time.Hour, lists(30, 1, 2), 1, 2); len(gone) != 2 {
		t.Errorf("gone %v, want both", gone)
	}
}

// With fewer than twenty Nodes, one is too many at once beside another.
func TestLifecycle_OneThatStaysInASmallCluster(t *testing.T) {
	for _, refused := range [][]int{nil, {1}} {
		s := newSite(t, 12)
		s.finalizer, s.refused = refused == nil, refused
		if gone := s.runFor(t, 30*time.Minute, lists(12, 1), 1); len(gone) != 1 {
			t.Fatalf("refused %v: gone %v, want the first", refused, gone)
		}
		gone := s.runFor(t, 2*time.Hour, lists(12, 1, 2), 1, 2)
		if _, second := gone[2]; !second {
			t.Errorf("refused %v: gone %v, want the second", refused, gone)
		}
	}
}

// While the API server refuses deletions, no more Nodes are called gone at once than the budget has: all of them would go when it no
// longer does. One that it refuses for ever does not keep the others.
func TestLifecycle_BudgetWhileRefused(t *testing.T) {
	for _, refused := range [][]int{{1}, {1, 2, 3}} {
		s := newSite(t, 30)
		s.refused, s.tried = refused, map[int][]time.Time{}
		if gone := s.runFor(t, 2*time.Hour, lists(30, 1, 2, 3), 1, 2, 3); len(gone) != 3 {
			t.Errorf("refused %v: gone %v, want all to be tried", refused, gone)
		}
		for n, at := range s.tried {
			for other, its := range s.tried {
				if n != other && slices.ContainsFunc(at, func(a time.Time) bool { return slices.Contains(its, a) }) {
					t.Errorf("refused %v: Nodes %d and %d are called gone at once", refused, n, other)
				}
			}
		}
	}
}

// A new leader has the budget that is left, not all of it.
func TestLifecycle_BudgetSurvives(t *testing.T) {
	s := newSite(t, 30)
	document := []byte(strings.Replace(string(lists(30, 1, 2)), "machines:",
		"policy: {deletionBudget: {per: 1h}}\nmachines:", 1))
	gone := s.runFor(t, 15*time.Minute, document, 1, 2)
	if len(gone) != 1 {
		t.Fatalf("gone %v, want one", gone)
	}
	s.lifecycle = newLifecycle(s.config, s.store, s.metrics, s.now, s.cluster)
	other := 1
	if _, first := gone[1]; first {
		other = 2
	}
	if gone := s.runFor(t, 40*time.Minute, document, other); len(gone) > 0 {
		t.Errorf("gone %v within the same hour", gone)
	}
	if gone := s.runFor(t, 40*time.Minute, document, other); len(gone) == 0 {
		t.Error("it stays for ever")
	}
}

func TestLifecycle_Breaker(t *testing.T) {
	s := newSite(t, 30)
	if gone := s.runFor(t, time.Hour, lists(30, 1, 2, 3, 4), 1, 2, 3, 4); len(gone) > 0 {
		t.Errorf("gone %v, want none of four", gone)
	}
	// Three are announced before the fourth makes them too many; then each is told
	// once in ten minutes that it stays.
	if n := len(s.warnings); !strings.Contains(s.warnings[n-1], "TooManyAtOnce") || n > 3+4*6 {
		t.Errorf("got %d warnings, the last is %q", n, s.warnings[n-1])
	}
}

func TestLifecycle_NoInventory(t *testing.T) {
	s := newSite(t, 1)
	if exists, err := s.exists(t.Context(), s.all[0]); !exists || err == nil {
		t.Errorf("got %v, %v", exists, err)
	}
}

func TestLifecycle_Absence(t *testing.T) {
	s := newSite(t, 30)
	absence := func(n int) []byte {
		return []byte(strings.Replace(string(lists(n)), "machines:", "policy: {deletion: absence}\nmachines:", 1))
	}
	s.runFor(t, time.Minute, absence(30), 29)
	gone := s.runFor(t, time.Hour, absence(29), 29)
	if at := gone[29]; at < 24*time.Minute || at > 26*time.Minute {
		t.Errorf("gone %v, want 15 minutes missing, 5 silent and 5 announced", gone)
	}
}

// Whatever the inventory, the leader and the sources do: a machine that talks, or
// that the inventory never called gone, is not deleted.
func TestLifecycle_Property(t *testing.T) {
	deletions := 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 7))
		s := newSite(t, 30)
		talking := map[int]bool{}
		lastTalk := map[int]time.Time{}
		everGone := map[int]bool{}
		document := lists(30)
		for range 600 {
			switch r.IntN(40) {
			case 0:
				d := r.IntN(3)
				document = lists(30, d)
				everGone[d] = true
			case 1:
				document = lists(30)
			case 2:
				document = []byte("<html>")
			case 3:
				n := r.IntN(4)
				talking[n] = !talking[n]
			case 4:
				s.heartbeatErr = errors.New("throttled")
			case 5:
				s.heartbeatErr = nil
			case 6:
				if r.IntN(4) == 0 { // a new leader
					s.lifecycle = newLifecycle(s.config, s.store, s.metrics, s.now, s.cluster)
				}
			}
			_, _ = s.store.Offer(document, nil)
			for n := range 4 {
				if talking[n] {
					lastTalk[n] = s.at
					s.heartbeats[s.all[n].Name] = s.at.String()
				}
				if exists, _ := s.exists(t.Context(), s.all[n]); exists {
					continue
				}
				deletions++
				if silent := s.at.Sub(lastTalk[n]); talking[n] || silent < 5*time.Minute || !everGone[n] {
					t.Fatalf("seed %d: machine %d is gone: silent for %s, ever said to be gone: %v", seed, n, silent, everGone[n])
				}
			}
			s.at = s.at.Add(time.Duration(1+r.IntN(60)) * time.Second)
		}
	}
	if deletions == 0 {
		t.Error("nothing was ever deleted: the histories say nothing")
	}
	t.Logf("%d times a machine was gone", deletions)
}
