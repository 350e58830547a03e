package workflow

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
)

// The endpoint of pods is kubeadm's, whatever the kubeconfig is that a run asks with: here one of a tunnel on this machine.
func TestControlPlaneEndpoint(t *testing.T) {
	const here, elsewhere = "https://198.18.0.11:7443", "https://198.18.0.30:6443"
	tests := []struct {
		name, said string
		status     int    // of the API server; 0: it has kubeadm's configuration
		admin      string // the server of admin.conf; empty: the tunnel's
		managers   string // that of the controller manager's kubeconfig
		named      bool   // the tunnel is that of --kubeconfig
		want       string
		wantErr    string
	}{
		{name: "an address", said: "198.18.0.20:6443", want: "https://198.18.0.20:6443"},
		{name: "without a port", said: "cp.example.org", managers: here, want: "https://cp.example.org:7443"},
		{name: "IPv6", said: "[fd00::1]:8443", want: "https://[fd00::1]:8443"},
		{name: "IPv6 without a port", said: "fd00::1", managers: here, want: "https://[fd00::1]:7443"},
		{name: "a load balancer on each machine", said: "127.0.0.1:8443", want: "https://127.0.0.1:8443"},
		{name: "before admin.conf", said: "198.18.0.20:6443", admin: elsewhere, named: true, want: "https://198.18.0.20:6443"},
		{name: "none", admin: elsewhere, named: true, want: elsewhere},
		{name: "none, and admin.conf leads to this machine", managers: here, want: here},
		{name: "not kubeadm's", status: http.StatusNotFound, admin: elsewhere, named: true, want: elsewhere},
		{name: "none, and no other machine reaches what there is", managers: "https://[::1]:6443", wantErr: "which other machines cannot reach"},
		{
			name: "it cannot be asked", status: http.StatusForbidden, admin: elsewhere, named: true,
			wantErr: "find the control-plane endpoint: read kubeadm's live configuration",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if tt.status != 0 {
					w.WriteHeader(tt.status)
					return
				}
				text := "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n"
				if tt.said != "" {
					text += "controlPlaneEndpoint: '" + tt.said + "'\n"
				}
				cm := corev1.ConfigMap{Data: map[string]string{ClusterConfigKey: text}}
				cm.APIVersion, cm.Kind = "v1", "ConfigMap"
				_ = json.NewEncoder(w).Encode(cm)
			}))
			defer server.Close()
			ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			conf := func(url string) string {
				if url == "" {
					url = server.URL
				}
				return "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {token: x}}]\n" +
					"clusters: [{name: c, cluster: {server: '" + url + "', certificate-authority-data: " + base64.StdEncoding.EncodeToString(ca) + "}}]\n"
			}
			m, _ := machinetest.New(t)
			machinetest.Put(t, m, machine.AdminConf, conf(tt.admin))
			if tt.managers != "" {
				machinetest.Put(t, m, machine.ControllerManagerConf, conf(tt.managers))
			}
			in := Inputs{Role: kubeadm.RoleInit}
			if tt.named {
				machinetest.Put(t, m, "/tunnel.conf", conf(""))
				in.Kubeconfig = filepath.Join(m.Root, "tunnel.conf")
			}
			r := NewRun(m, in, Streams{}, "test")
			var err error
			if r.KubeadmFile, err = kubeadm.Parse("", nil); err != nil {
				t.Fatal(err)
			}
			got, err := ControlPlaneEndpoint(t.Context(), r.Host)
			if got != tt.want || (err != nil) != (tt.wantErr != "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("got %q, %v; want %q, %q", got, err, tt.want, tt.wantErr)
			}
		})
	}
}

// A dry run of init on a machine whose API server is not up yet goes by what kubeadm has written.
func TestControlPlaneEndpoint_NotUpYet(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	m, _ := machinetest.New(t)
	conf := "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {token: x}}]\n"
	machinetest.Put(t, m, "/gone.conf", conf+"clusters: [{name: c, cluster: {server: '"+server.URL+"'}}]\n")
	const want = "https://198.18.0.11:6443"
	machinetest.Put(t, m, machine.AdminConf, conf+"clusters: [{name: c, cluster: {server: '"+want+"'}}]\n")
	r := NewRun(m, Inputs{Role: kubeadm.RoleInit, DryRun: true, Kubeconfig: filepath.Join(m.Root, "gone.conf")}, Streams{Out: io.Discard}, "test")
	if got, err := ControlPlaneEndpoint(t.Context(), r.Host); err != nil || got != want {
		t.Errorf("got %q, %v, want %s", got, err, want)
	}
}
