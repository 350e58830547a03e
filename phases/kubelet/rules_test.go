package kubelet

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// metadata is a service like those of clouds: it wants a token, and speaks text and JSON.
func metadata(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /token", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Ttl") != "60" {
			http.Error(w, "how long?", http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, "t0ken")
	})
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		answers := map[string]string{"/ips": "192.0.2.7\n192.0.2.8\n2001:db8::7\n", "/name": "Web-1\n", "/id": "i-1", "/all.json": `{"zone": {"name": "z1", "number": 7}}`, "/broken.json": `{`, "/spaced": "z1 --v=9"}
		answer, ok := answers[r.URL.Path]
		switch {
		case r.Header.Get("Token") != "t0ken":
			http.Error(w, "no token", http.StatusUnauthorized)
		case !ok:
			http.NotFound(w, r)
		default:
			fmt.Fprint(w, answer)
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

const strictProfile = `
apiVersion: ccmadm.dev/v1alpha1
kind: ProviderProfile
name: strict
title: A cloud with rules
status: BestEffort
features: [Nodes]
modes: [DaemonSet]
image: {repository: example.com/ccm, tag: v1}
node:
  name: the server's name, in lower case
  nameFrom: ["${name}", "${id}.*"]
  namePattern: ^[a-z0-9-]+$
  addressesFrom: ["${ips}"]
  providerID: strict://<zone>/<id>
  providerIDFrom: strict://${zone}/${id}
  kubeletProviderID: true
metadata:
  url: URL
  token: {path: /token, headers: {Ttl: "60"}, header: Token}
  values: {name: /name, id: /id, zone: "/all.json#zone.name", ips: /ips}
`

func TestNodeRules(t *testing.T) {
	server := metadata(t)
	const none = "http://127.0.0.1:1"
	const withNodeIP = "name: web-1\n  kubeletExtraArgs: [{name: node-ip, value: '" // and addresses
	tests := []struct {
		name       string
		url        string
		drop, put  string // in the profile
		kubeadm    string
		providerID string
		says       string
		quiet      bool
		wantErr    []string
	}{
		{name: "as the cloud knows it, but for the case", url: server.URL, kubeadm: "name: web-1", providerID: "strict://z1/i-1"},
		{name: "its ID with a domain", url: server.URL, kubeadm: "name: i-1.example.internal", providerID: "strict://z1/i-1", drop: "  namePattern: ^[a-z0-9-]+$"},
		{
			name: "another name", url: server.URL, kubeadm: "name: db-1", providerID: "strict://z1/i-1",
			wantErr: []string{`NodeName: node name "db-1": provider strict knows this machine as Web-1 or i-1.*`},
		},
		{
			name: "a name that no machine may have", url: server.URL, kubeadm: "name: web.1", providerID: "strict://z1/i-1",
			wantErr: []string{`node name "web.1": provider strict wants the server's name, in lower case (^[a-z0-9-]+$)`},
		},
		{name: "the user's provider ID makes the name irrelevant", url: none, kubeadm: "name: db-1\n  kubeletExtraArgs: [{name: provider-id, value: strict://z9/i-9}]", says: "warning, the node IP is not checked, ask the metadata service"},
		{
			name: "nobody to ask", url: none, kubeadm: "name: db-1", says: "warning, the node's name is not checked",
			wantErr: []string{"ProviderID: provider strict finds a machine only by the kubelet's --provider-id, which is not set", "connection refused"},
		},
		{name: "an address of the cloud's", url: server.URL, kubeadm: withNodeIP + "192.0.2.8,2001:db8::7'}]", providerID: "strict://z1/i-1", quiet: true},
		{name: "any address", url: server.URL, kubeadm: withNodeIP + "0.0.0.0'}]", providerID: "strict://z1/i-1", quiet: true},
		{name: "an address that the cloud may not know", url: server.URL, kubeadm: withNodeIP + "192.0.2.9'}]", providerID: "strict://z1/i-1", says: "warning, node IP 192.0.2.9: provider strict knows this machine at 192.0.2.7, 192.0.2.8; with"},
		{name: "of the other family", url: server.URL, kubeadm: withNodeIP + "192.0.2.8,2001:db8::9'}]", providerID: "strict://z1/i-1", says: "warning, node IP 2001:db8::9: provider strict knows this machine at 2001:db8::7; with"},
		{name: "the cloud says no address", url: server.URL, drop: "ips: /ips", put: "ips: /nothing", kubeadm: withNodeIP + "192.0.2.9'}]", providerID: "strict://z1/i-1", quiet: true},
		{
			name: "the service does not know", url: server.URL, drop: "zone: \"/all.json#zone.name\"", put: "zone: /nothing", kubeadm: "name: web-1",
			wantErr: []string{"does not say enough"},
		},
		{
			name: "the service says what would be further flags", url: server.URL, drop: "zone: \"/all.json#zone.name\"", put: "zone: /spaced",
			kubeadm: "name: web-1", wantErr: []string{`says "strict://z1 --v=9/i-1", which would become further flags`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(strictProfile, "URL", tt.url, 1)
			if tt.drop != "" {
				text = strings.Replace(text, tt.drop, tt.put, 1)
			}
			r, out := rulesData(t, text, tt.kubeadm)
			err := workflow.RunChecks(t.Context(), r, NodeChecks())
			if (err != nil) != (len(tt.wantErr) > 0) {
				t.Fatalf("got error %v, want %q", err, tt.wantErr)
			}
			for _, want := range tt.wantErr {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got error %v, want %q", err, want)
				}
			}
			if said := out.String(); !strings.Contains(said, tt.says) || tt.quiet && strings.Contains(said, "warning") {
				t.Errorf("said %q, want %q", said, tt.says)
			}
			settings, err := r.Settings(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if id, _ := kubeletProviderID(t.Context(), r.Host, settings); id != tt.providerID {
				t.Errorf("provider ID %q, want %q", id, tt.providerID)
			}
		})
	}
}

func rulesData(t *testing.T, profile, registration string) (*workflow.Run, *bytes.Buffer) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "strict.yaml")
	if err := os.WriteFile(path, []byte(profile), 0o600); err != nil {
		t.Fatal(err)
	}
	m, _ := machinetest.New(t)
	text := "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nlocalAPIEndpoint: {advertiseAddress: " + machinetest.Address + "}\nnodeRegistration:\n  " + registration + "\n"
	return phasestest.Run{Config: text, Inputs: workflow.Inputs{Request: workflow.Request{Flags: config.CloudConfiguration{Profile: path}}}}.Must(t, m)
}
