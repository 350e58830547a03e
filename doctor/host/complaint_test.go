package host

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
)

// TestLook_Complaint: the log of a kubelet that runs is quoted with what is wrong with it, by the line that says why.
func TestLook_Complaint(t *testing.T) {
	const (
		denied = `E1130 06:00:00.1 1 kubelet_node_status.go:116] "Unable to register node with API server" err="nodes \"w1\" is forbidden: policy says no" node="w1"` + "\n"
		quoted = `; the kubelet logs: "Unable to register node with API server" err="nodes \"w1\" is forbidden: policy says no" node="w1"`
		noNode = `E1130 06:00:01.1 1 eviction_manager.go:292] "Eviction manager: failed to get summary stats" err="node \"w1\" not found"` + "\n"
	)
	for name, tt := range map[string]struct {
		log, want, next string
		unreached       bool
	}{
		"no log":                        {next: "systemctl restart kubelet"},
		"it may not register":           {log: denied + noNode + "I1130 x\n", want: quoted, next: "grep 'register node'"},
		"it had registered since":       {log: denied + `I1130 x] "Successfully registered node" node="w1"` + "\n" + noNode, want: `; the kubelet logs: "Eviction`, next: "systemctl restart kubelet"},
		"all was well since":            {log: denied + `I1130 x] "Successfully registered node" node="w1"` + "\n", next: "systemctl restart kubelet"},
		"a log of JSON":                 {log: `{"msg":"Unable to register node","err":"no"}` + "\n", want: `; the kubelet logs: {"msg"`, next: "grep 'register node'"},
		"a credential":                  {log: `E1130 06:00:01.1 1 x.go:2] failed password=hunter2` + "\n", want: "; the kubelet logs: failed password=", next: "systemctl restart kubelet"},
		"the API server is not reached": {unreached: true, log: noNode, want: `; the kubelet logs: "Eviction`, next: "crictl ps -a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := finding.ServerUnreached
			var m *machine.Machine
			var runner *machinetest.Commands
			if tt.unreached {
				m, runner = refusedServer(t)
			} else {
				id = finding.KubeletWithoutNode
				server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(http.StatusNotFound)
					_ = json.NewEncoder(w).Encode(&metav1.Status{
						TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: 404, Reason: metav1.StatusReasonNotFound,
					})
				}))
				t.Cleanup(server.Close)
				m, runner = newHost(t, 0)
				kubeletOf(t, m, server.URL)
			}
			if tt.log != "" {
				runner.Answers["journalctl -u kubelet -n 300 -o cat --no-pager --since=-15min"] = tt.log
			}
			d := diagnoseHost(t, m)
			if len(d.Causes) == 0 || d.Causes[0].ID != id {
				t.Fatalf("got %+v, want %s", d.Causes, id)
			}
			c := d.Causes[0]
			if !strings.Contains(c.Message, tt.want) || tt.want == "" && strings.Contains(c.Message, "logs: ") || strings.Contains(c.Message, "hunter2") ||
				!strings.Contains(c.Next, tt.next) {
				t.Errorf("got %s, want %q\nnext %s, want %s", c.Message, tt.want, c.Next, tt.next)
			}
		})
	}
}

// What is wrong with a kubelet's address stands in its log.
func TestDiagnose_Complaint(t *testing.T) {
	s := &diagnosis.Snapshot{Host: &diagnosis.Host{
		Node: "w1", Addresses: []string{"192.0.2.1"}, Unit: &diagnosis.HostUnit{PID: 7, Active: "active", Complaint: "failed to set node IP"},
		Flags: []diagnosis.HostFlag{{Name: "node-ip", Runs: true, Value: "192.0.2.2"}},
	}}
	for _, c := range diagnosis.Diagnose(s).Causes {
		if c.ID == finding.NodeIPNotLocal && strings.HasSuffix(c.Message, "; the kubelet logs: failed to set node IP") {
			return
		}
	}
	t.Error("the log is not quoted")
}
