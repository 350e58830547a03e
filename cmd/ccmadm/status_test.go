package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// apiServer answers what status and wait ask first, or does what the handler does. A real one is in the tests of
// doctor/nodes; this is about the command line.
func apiServer(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server
}

// oneNode has w1, Ready or waiting, and a leader.
func oneNode(waits bool) http.HandlerFunc {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}
	node.Spec.ProviderID = "onprem://ber1/w1\x1b[31m"
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "198.18.0.11"}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if waits {
		node.Spec.ProviderID, node.Spec.Taints = "", []corev1.Taint{
			{Key: v1alpha1.UninitializedTaint, Effect: corev1.TaintEffectNoSchedule},
		}
	}
	lease := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.LeaseName, Namespace: v1alpha1.Namespace}}
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: new("cp1_1"), LeaseDurationSeconds: new(int32(600)), RenewTime: &metav1.MicroTime{Time: time.Now()},
	}
	return func(w http.ResponseWriter, r *http.Request) {
		answers := map[string]any{
			"/api/v1/nodes": corev1.NodeList{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"},
				Items:    []corev1.Node{node},
			},
			"/api/v1/nodes/w1": node,
			"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/" + v1alpha1.LeaseName: lease,
		}
		answer, ok := answers[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		if !ok {
			w.WriteHeader(http.StatusForbidden)
			answer = metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
				Status:   "Failure",
				Reason:   "Forbidden",
				Message:  "nodes is forbidden",
				Code:     403,
			}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}
}

// kubeconfig writes a file with one context of that name.
func kubeconfig(t *testing.T, name string, server *httptest.Server) string {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	file := filepath.Join(t.TempDir(), name)
	caFile := file + ".crt"
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: %[1]s, cluster: {server: %[2]q, certificate-authority: %[3]q}}]
users: [{name: %[1]s, user: {token: x}}]
contexts: [{name: %[1]s, context: {cluster: %[1]s, user: %[1]s}}]
current-context: %[1]s
`, name, server.URL, caFile)
	for path, data := range map[string][]byte{caFile: ca, file: []byte(text)} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

// ccmadm runs a command line.
func ccmadm(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	s := workflow.Streams{In: strings.NewReader(""), Out: &out, Err: &errs, Getenv: os.Getenv}
	code = run(ctx, s, append([]string{"ccmadm"}, args...))
	return code, out.String(), errs.String()
}

func TestStatusAndWait(t *testing.T) {
	ready, waits := apiServer(t, oneNode(false)), apiServer(t, oneNode(true))
	forbidding := apiServer(t, func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = "/"
		oneNode(false)(w, r)
	})
	away := filepath.Join(t.TempDir(), "away")
	tests := []struct {
		name       string
		kubeconfig string // KUBECONFIG
		args       string
		code       int
		out        string
		err        string
	}{
		{
			name:       "a node that is ready, its text cleaned",
			kubeconfig: kubeconfig(t, "a", ready),
			args:       "status",
			out:        "w1    Ready        onprem://ber1/w1  198.18.0.11\n",
		},
		{
			name:       "a list of files, of which one is not there",
			kubeconfig: away + ":" + kubeconfig(t, "a", ready) + ":" + kubeconfig(t, "b", waits),
			args:       "status",
			out:        "Ready",
		},
		{
			name:       "another context of the list",
			kubeconfig: kubeconfig(t, "a", ready) + ":" + kubeconfig(t, "b", waits),
			args:       "status --context b",
			code:       4,
			out:        "Claimed",
			err:        "ccmadm: error: status: w1 Claimed: ",
		},
		{
			name:       "a context that is not there",
			kubeconfig: kubeconfig(t, "a", ready),
			args:       "status --context nowhere",
			code:       2,
			err:        `it has no context "nowhere"`,
		},
		{
			name:       "no file of the list is there",
			kubeconfig: away + ":" + away + "2",
			args:       "status",
			code:       2,
			err:        "load kubeconfig: stat " + away,
		},
		{
			name: "a file that is not there",
			args: "status --kubeconfig " + away,
			code: 2,
			err:  "load kubeconfig: ",
		},
		{
			name:       "wide",
			kubeconfig: kubeconfig(t, "a", ready),
			args:       "status -o wide",
			out:        "ZONE  VERSION",
		},
		{
			name:       "YAML",
			kubeconfig: kubeconfig(t, "a", ready),
			args:       "status -o yaml",
			out:        "---\ninternalIPs:\n- 198.18.0.11\nnode: w1\n",
		},
		{
			name:       "a format that there is not",
			kubeconfig: kubeconfig(t, "a", ready),
			args:       "status -o xml",
			code:       2,
			err:        `"xml" is none of text, wide, json, yaml`,
		},
		{
			name:       "requests are shown",
			kubeconfig: kubeconfig(t, "a", ready),
			args:       "status -v 6",
			out:        "Ready",
			err:        "/api/v1/nodes",
		},
		{
			name:       "a node that comes too late",
			kubeconfig: kubeconfig(t, "b", waits),
			args:       "wait w1 --timeout 3s",
			code:       4,
			err:        "ccmadm: error: wait for nodes to be Addressed: w1 Tainted: ",
		},
		{
			name:       "who may not look",
			kubeconfig: kubeconfig(t, "c", forbidding),
			args:       "wait --timeout 5s",
			code:       1,
			err:        "forbidden",
		},
	}
	klog.ClearLogger() // that of the tests with a cluster, which swallows all
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", tt.kubeconfig)
			t.Cleanup(func() { // -v is for the process
				klog.SetOutput(io.Discard)
				if err := new(klog.Level).Set("0"); err != nil {
					t.Error(err)
				}
			})
			code, out, errs := ccmadm(t.Context(), strings.Fields(tt.args)...)
			if code != tt.code || !strings.Contains(out, tt.out) || !strings.Contains(errs, tt.err) {
				t.Errorf(
					"exit status %d, want %d\nstdout, want %q:\n%s\nstderr, want %q:\n%s",
					code,
					tt.code,
					tt.out,
					out,
					tt.err,
					errs,
				)
			}
		})
	}
}
