package host

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/machine/machinetest"
)

// TestLook_Twin: a Node that shows another boot and then this machine's has two machines. One that goes on to show another has a kubelet that
// cannot write its status, and one that shows what was written before the machine was booted, one that could not until now.
func TestLook_Twin(t *testing.T) {
	for name, tt := range map[string]struct {
		boots []string      // by question, the last for all others
		ago   time.Duration // since the first was written
		young bool
		want  string
	}{
		"its own":                        {boots: []string{"own"}},
		"in turn":                        {boots: []string{"other", "own"}, want: "K21"},
		"always another":                 {boots: []string{"other"}},
		"in turn, and just been started": {boots: []string{"other", "own"}, young: true},
		"no API server since the boot":   {boots: []string{"other", "own"}, ago: time.Hour},
		"and a clock that was ahead":     {boots: []string{"other", "own"}, ago: 1990 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if !strings.HasPrefix(r.URL.Path, "/api/v1/nodes/") {
					w.WriteHeader(http.StatusInternalServerError)
					return
				}
				node := corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}}
				node.Status.Conditions = []corev1.NodeCondition{{
					Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastHeartbeatTime: metav1.NewTime(time.Now().Add(-tt.ago)),
				}}
				node.Status.NodeInfo.BootID = tt.boots[min(int(asked.Add(1)), len(tt.boots))-1]
				node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "203.0.113.9"}}
				_ = json.NewEncoder(w).Encode(&node)
			}))
			t.Cleanup(server.Close)
			m, runner := newHost(t, 0)
			kubeletOf(t, m, server.URL)
			machinetest.Put(t, m, "/proc/sys/kernel/random/boot_id", "own\n")
			machinetest.Put(t, m, "/proc/uptime", "1000.50 900.00\n")
			start := "900000000"
			if tt.young {
				start = "930000000"
			}
			runner.Answers["systemctl show kubelet -p LoadState"] += "ExecMainStartTimestampMonotonic=" + start + "\n"
			if start == "900000000" {
				machinetest.Put(t, m, "/proc/uptime", "2000.50 900.00\n")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
			defer cancel()
			ids, text := hostWords(diagnoseHostIn(ctx, t, m))
			if ids != tt.want || tt.want != "" && !strings.Contains(text, "boot ID other") || tt.want != "" && !strings.Contains(text, "address 203.0.113.9") {
				t.Errorf("got %s, want %s\n%s", ids, tt.want, text)
			}
		})
	}
}
