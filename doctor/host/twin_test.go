package host

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/machine"
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

// TestLook_RenamedCopy: a machine with the credentials of another one's Node is told to leave them, and one that was renamed, to take its
// former name.
func TestLook_RenamedCopy(t *testing.T) {
	const (
		renamed = "hostnamectl set-hostname cp1 && systemctl restart kubelet"
		copied  = "systemctl stop kubelet && ccmadm reset -- --skip-phases=remove-etcd-member && "
		until   = "until its next start"
	)
	for name, tt := range map[string]struct {
		boot, uuid  string        // that the Node shows
		ago         time.Duration // since it was written
		renewed     time.Duration // since its Lease was, by now; 0: it cannot be read
		down        bool
		words, next string
		not         string
	}{
		"renamed, and not restarted": {boot: "own", words: until, next: renamed},
		"renamed, and booted": {
			boot: "other", uuid: "4C4C-OWN", ago: time.Hour, down: true, next: renamed, not: until,
		},
		"renamed, and booted a moment ago": {boot: "other", ago: 2100 * time.Second, next: renamed, not: until},
		"a copy":                           {boot: "other", words: "another machine (boot ID other, ", next: copied, not: until},
		"a copy, and the original is off": {
			boot: "other", uuid: "4c4c-0002", ago: time.Hour, down: true, words: "another machine (", next: copied,
		},
		"a copy with the same UUID, and the original has only renewed its Lease": {
			boot: "other", uuid: "4C4C-OWN", ago: 2100 * time.Second, renewed: time.Second, words: "another machine (", next: copied,
		},
		"renamed, and its own Lease is still there": {boot: "other", ago: 2100 * time.Second, renewed: 1990 * time.Second, next: renamed, not: until},
		"a copy, and firmware without a UUID":       {boot: "other", words: "address 203.0.113.9", next: copied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if tt.renewed != 0 && r.URL.Path == "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/cp1" {
					lease := coordinationv1.Lease{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}}
					lease.Spec.RenewTime = new(metav1.NewMicroTime(time.Now().Add(-tt.renewed)))
					_ = json.NewEncoder(w).Encode(&lease)
					return
				}
				if !strings.HasPrefix(r.URL.Path, "/api/v1/nodes/") {
					w.WriteHeader(http.StatusInternalServerError)
					return
				}
				node := corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}}
				ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}
				ready.LastHeartbeatTime = metav1.NewTime(time.Now().Add(-tt.ago))
				if tt.down {
					ready.Status = corev1.ConditionUnknown
				}
				node.Status.Conditions = []corev1.NodeCondition{ready}
				node.Status.NodeInfo.BootID, node.Status.NodeInfo.SystemUUID = tt.boot, tt.uuid
				node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "203.0.113.9"}}
				_ = json.NewEncoder(w).Encode(&node)
			}))
			t.Cleanup(server.Close)
			m, runner := newHost(t, 0)
			kubeletOf(t, m, server.URL)
			machinetest.Put(t, m, "/proc/sys/kernel/hostname", "w2\n")
			machinetest.Put(t, m, "/proc/sys/kernel/random/boot_id", "own\n")
			machinetest.Put(t, m, "/proc/uptime", "2000.50 900.00\n")
			machinetest.Put(t, m, machine.DMIDir+"/product_uuid", "4c4c-own\n")
			runner.Answers["systemctl show kubelet -p LoadState"] += "ExecMainStartTimestampMonotonic=900000000\n"
			runner.Answers["journalctl -u kubelet"] = "E1130 \"Unable to register node\" err=\"not allowed\"\n"
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
			defer cancel()
			d := diagnoseHostIn(ctx, t, m)
			at := slices.IndexFunc(d.Causes, func(c diagnosis.Cause) bool { return c.ID == finding.KubeletRenamed })
			if at < 0 {
				t.Fatalf("got %+v", d.Causes)
			}
			c := d.Causes[at]
			wrong := tt.not != "" && strings.Contains(c.Message, tt.not) || strings.Contains(c.Next, "set-hostname") != (tt.next == renamed)
			wrong = wrong || !strings.Contains(c.Message, tt.words) || !strings.Contains(c.Message, "not allowed")
			if wrong || !strings.HasPrefix(c.Next, tt.next) {
				t.Errorf("got %s\n%s", c.Message, c.Next)
			}
			if warning := c.Severity == finding.SeverityWarning; warning != (tt.boot == "own") {
				t.Errorf("severity %s", c.Severity)
			}
			if object := map[bool]string{true: "Node/w2", false: "Node/cp1"}[tt.next == copied]; c.Object != object {
				t.Errorf("it is said of %s", c.Object)
			}
		})
	}
}
