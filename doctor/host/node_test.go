package host

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/doctor/components"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
)

// TestClusterLook_Node: a kubelet is told of its own Node, and a kubelet that may not ask is a fault.
func TestClusterLook_Node(t *testing.T) {
	client, err := kubernetes.NewForConfig(cluster.Config)
	must(t, err)
	nodes := client.CoreV1().Nodes()
	_, err = nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "host-there"}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		must(t, nodes.Delete(context.WithoutCancel(t.Context()), "host-there", metav1.DeleteOptions{}))
	})
	for name, tt := range map[string]struct {
		user, want string
		groups     []string
		young      bool
	}{
		"its Node is there":                 {user: "system:node:host-there", groups: []string{"system:nodes"}},
		"its Node is gone":                  {user: "system:node:host-gone", groups: []string{"system:nodes"}, want: "N1"},
		"its kubelet has just been started": {user: "system:node:host-gone", groups: []string{"system:nodes"}, young: true},
		"it may not ask":                    {user: "system:node:host-gone", want: "K17"},
		"it has not joined: no Node's":      {user: "somebody"},
	} {
		t.Run(name, func(t *testing.T) {
			m, runner := newHost(t, 0)
			machinetest.Put(t, m, "/proc/sys/kernel/hostname", strings.TrimPrefix(tt.user, "system:node:"))
			machinetest.Put(t, m, "/proc/uptime", "1000.50 900.00\n")
			const unit = "systemctl show kubelet -p LoadState"
			runner.Answers[unit] += "ExecMainStartTimestampMonotonic=900000000\n"
			if tt.young {
				runner.Answers[unit] += "ExecMainStartTimestampMonotonic=990000000\n"
			}
			m.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) { // no kube-proxy is here
				return new(net.Dialer).DialContext(ctx, network, strings.Trim(strings.TrimPrefix(cluster.Config.Host, "https:"), "/"))
			}
			config, err := cluster.Kubeconfig(tt.user, tt.groups...)
			must(t, err)
			machinetest.Put(t, m, machine.KubeletConf, string(config))
			d := diagnoseHost(t, m)
			if ids, text := hostWords(d); ids != tt.want {
				t.Errorf("got %s, want %s\n%s", ids, tt.want, text)
			}
			if seen := len(d.NotSeen) == 1; seen != (name != "it may not ask") {
				t.Errorf("not seen: %v", d.NotSeen)
			}
		})
	}
}

// TestLook_NodeName: the kubelet's name is that of its process; a file may have a variable in its place, or was changed since.
func TestLook_NodeName(t *testing.T) {
	for name, tt := range map[string]struct {
		file, runs, want string
		stopped          bool
	}{
		"the hostname":                   {want: "cp1"},
		"a flag":                         {file: "W1", runs: "W1", want: "w1"},
		"a variable":                     {file: "${NAME}", runs: "w1", want: "w1"},
		"a variable that is empty":       {file: "${NAME}", want: "cp1"},
		"changed since":                  {file: "w2", runs: "w1", want: "w1"},
		"it does not run":                {file: "w1", want: "w1", stopped: true},
		"it does not run, by a variable": {file: "%H", want: "cp1", stopped: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, runner := newHost(t, 0)
			if tt.file != "" {
				machinetest.Put(t, m, "/etc/default/kubelet", "KUBELET_EXTRA_ARGS=--hostname-override="+tt.file+"\n")
			}
			if tt.runs != "" {
				process(t, m, hostKubelet, "system.slice/kubelet.service", "/usr/bin/kubelet", "--hostname-override="+tt.runs)
			}
			if tt.stopped {
				runner.Answers["systemctl show -p MainPID"] = "0\n"
			}
			if seen, notSeen := Look(t.Context(), m); seen.Node != tt.want {
				t.Errorf("got %s, want %s; not seen: %v", seen.Node, tt.want, notSeen)
			}
		})
	}
}

// TestLook_Rejected: an answer that refuses the kubelet, and a certificate that it refuses, are findings; neither is "not seen".
func TestLook_Rejected(t *testing.T) {
	answers := func(status int, reason metav1.StatusReason, message string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(&metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(status), Reason: reason, Message: message,
			})
		}
	}
	forbidden := answers(http.StatusForbidden, metav1.StatusReasonForbidden, `nodes "cp1" is forbidden: User "system:node:cp1" cannot get resource "nodes"`)
	for name, tt := range map[string]struct {
		answer            http.HandlerFunc
		ca, host          string // of the kubeconfig; an empty CA: the server's certificate is not verified
		want, words, next string
	}{
		"credentials of another CA": {
			answer: answers(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized"),
			want:   "K17", words: "get Node/cp1 as its kubelet: Unauthorized", next: "rm -f /var/lib/kubelet/pki/kubelet-client-current.pem",
		},
		"no permission":  {answer: forbidden, want: "K17", words: "cannot get resource", next: "authorization-mode"},
		"another CA":     {answer: forbidden, ca: "other", want: "K17", words: "x509: certificate signed by unknown authority", next: "kubeadm kubeconfig user"},
		"another name":   {answer: forbidden, ca: "own", host: "localhost", want: "K17", words: "not localhost", next: components.NewServerCertificate},
		"an error of it": {answer: answers(http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcd")},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := newHost(t, 0)
			server := httptest.NewTLSServer(tt.answer)
			t.Cleanup(server.Close)
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			kubeletOf(t, m, strings.Replace(server.URL, "127.0.0.1", cmp.Or(tt.host, "127.0.0.1"), 1))
			if ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}); tt.ca != "" {
				if tt.ca == "other" {
					ca = certificate(t, time.Hour)
				}
				conf, err := m.Read(machine.KubeletConf)
				must(t, err)
				machinetest.Put(t, m, machine.KubeletConf, strings.Replace(string(conf), "insecure-skip-tls-verify: true",
					"certificate-authority-data: "+base64.StdEncoding.EncodeToString(ca), 1))
			}
			d := diagnoseHost(t, m)
			ids, text := hostWords(d)
			if ids != tt.want || !strings.Contains(text, tt.words) {
				t.Errorf("got %s %s\nwant %s %s", ids, text, tt.want, tt.words)
			}
			for _, c := range d.Causes {
				if !strings.Contains(c.Next, tt.next) {
					t.Errorf("next: %s", c.Next)
				}
			}
			unseen := slices.ContainsFunc(d.NotSeen, func(n diagnosis.NotSeen) bool { return n.What == diagnosis.HostNodePart })
			if unseen != (tt.want == "") || d.Blind() != unseen {
				t.Errorf("not seen: %v, blind: %v", d.NotSeen, d.Blind())
			}
		})
	}
}

// A provider ID in the kubelet's configuration is as good as the flag.
func TestLook_ProviderID(t *testing.T) {
	m, _ := newHost(t, 0)
	before, err := m.Read(machine.KubeletConfig)
	must(t, err)
	machinetest.Put(t, m, machine.KubeletConfig, string(before)+"providerID: metal3://x\n")
	h := &looking{Machine: m, seen: &diagnosis.Host{}}
	must(t, h.config())
	if h.seen.ProviderID != "metal3://x" {
		t.Errorf("got %q", h.seen.ProviderID)
	}
}
