package host

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
)

// TestLook_RenewedIdentity: the kubelet goes by the certificate that it has renewed, whatever has become of the one in its kubeconfig.
func TestLook_RenewedIdentity(t *testing.T) {
	const ended, lasts = -time.Hour, time.Hour * 24 * 300
	for name, tt := range map[string]struct {
		first, renewed time.Duration // until the certificate ends; 0: there is none
		config         string        // of the kubelet
		want           string
	}{
		"the first one": {first: lasts},
		"renewed":       {first: ended, renewed: lasts},
		"not renewed":   {first: ended, want: "K17"},
		"the renewed one has ended, a new kubeconfig": {first: lasts, renewed: ended, want: "K5"},
		"both have ended":            {first: ended, renewed: ended, want: "K5>K17"},
		"a kubelet that renews none": {first: ended, renewed: lasts, config: "rotateCertificates: false\n", want: "K17"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, _ := newHost(t, 0)
			machinetest.Put(t, m, "/proc/sys/kernel/hostname", "cp1\n")
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if certs := r.TLS.PeerCertificates; len(certs) > 0 && certs[0].NotAfter.After(time.Now()) {
					(&apiServer{proxy: proxyPod(time.Hour, "")}).ServeHTTP(w, r)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusUnauthorized)
				_ = json.NewEncoder(w).Encode(&metav1.Status{
					TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
					Status:   metav1.StatusFailure, Code: http.StatusUnauthorized, Reason: metav1.StatusReasonUnauthorized,
				})
			}))
			server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
			server.StartTLS()
			t.Cleanup(server.Close)
			m.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
			}
			cert, key := nodeIdentity(t, tt.first)
			machinetest.Put(t, m, machine.KubeletConf, kubeconfigOf(server.URL, cert, key))
			if tt.renewed != 0 {
				cert, key := nodeIdentity(t, tt.renewed)
				machinetest.Put(t, m, kubeletCertificate, string(cert)+string(key))
			}
			if tt.config != "" {
				before, err := m.Read(machine.KubeletConfig)
				must(t, err)
				machinetest.Put(t, m, machine.KubeletConfig, string(before)+tt.config)
			}
			if ids, text := hostWords(diagnoseHost(t, m)); ids != tt.want {
				t.Errorf("got %s, want %s\n%s", ids, tt.want, text)
			}
		})
	}
}

// The proxy of the shell from which the doctor is called is not the kubelet's; one that its kubeconfig names is.
func TestLook_IdentityProxy(t *testing.T) {
	m, _ := newHost(t, 0)
	kubeletOf(t, m, "https://203.0.113.1:6443")
	h := &looking{Machine: m, seen: &diagnosis.Host{}}
	proxy := func() *url.URL {
		config, _, err := h.credentials()
		must(t, err)
		if config.Proxy == nil {
			t.Fatal("it is that of the environment")
		}
		found, err := config.Proxy(&http.Request{URL: &url.URL{Scheme: "https", Host: "203.0.113.1:6443"}})
		must(t, err)
		return found
	}
	if found := proxy(); found != nil {
		t.Errorf("got %s", found)
	}
	conf, err := m.Read(machine.KubeletConf)
	must(t, err)
	const proxied = "cluster: {proxy-url: \"http://proxy:3128\", server"
	machinetest.Put(t, m, machine.KubeletConf, strings.Replace(string(conf), "cluster: {server", proxied, 1))
	if found := proxy(); found == nil || found.Host != "proxy:3128" {
		t.Errorf("got %s", found)
	}
}

// The last step of the remedy leaves a kubeconfig that names the kubelet's own certificate in place of the one that nothing renews.
func TestNewKubeletConf_NamesTheKubeletsOwn(t *testing.T) {
	m, _ := newHost(t, 0)
	h := &looking{Machine: m, seen: &diagnosis.Host{}}
	_, sed, found := strings.Cut(h.newKubeletConf("cp1"), "done' && ")
	if !found {
		t.Fatal("it does not wait for the certificate")
	}
	conf := "apiVersion: v1\nkind: Config\ncurrent-context: c\n" +
		"clusters:\n- name: c\n  cluster:\n    certificate-authority-data: eA==\n    server: https://x\n" +
		"contexts:\n- name: c\n  context:\n    cluster: c\n    user: u\n" +
		"users:\n- name: u\n  user:\n    client-certificate-data: eA==\n    client-key-data: eA==\n"
	machinetest.Put(t, m, machine.KubeletConf, conf)
	sed = strings.Replace(sed, " "+machine.KubeletConf, " "+m.Path(machine.KubeletConf), 1)
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", sed).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", sed, err, out)
	}
	cert, key := nodeIdentity(t, time.Hour)
	machinetest.Put(t, m, kubeletCertificate, string(cert)+string(key))
	config, err := identity.Kubeconfig(m, machine.KubeletConf)
	must(t, err)
	own, ca := string(config.AuthInfos["u"].ClientCertificateData), string(config.Clusters["c"].CertificateAuthorityData)
	if own != string(cert)+string(key) || ca != "x" {
		left, _ := os.ReadFile(m.Path(machine.KubeletConf))
		t.Errorf("%s", left)
	}
}

// A certificate that the kubelet was told not to renew is worth a word as early as that of others, and the remedy waits for no new one.
func TestLook_NotRotated(t *testing.T) {
	for _, tt := range []struct {
		config, flag string
		want         string
	}{
		{"", "", ""},
		{"rotateCertificates: true\n", "", ""},
		{"rotateCertificates: false\n", "", "K6"},
		{"rotateCertificates: false\n", "--rotate-certificates=true", ""},
		{"", "--rotate-certificates=false", "K6"},
	} {
		m, _ := newHost(t, 0)
		config, err := m.Read(machine.KubeletConfig)
		must(t, err)
		machinetest.Put(t, m, machine.KubeletConfig, string(config)+tt.config)
		if tt.flag != "" {
			machinetest.Put(t, m, "/etc/default/kubelet", "KUBELET_EXTRA_ARGS="+tt.flag+"\n")
			args := []string{"/usr/bin/kubelet", "--cloud-provider=external", "--node-ip=" + machinetest.Address, tt.flag}
			process(t, m, hostKubelet, "system.slice/kubelet.service", args...)
		}
		cert, key := nodeIdentity(t, 20*24*time.Hour)
		machinetest.Put(t, m, kubeletCertificate, string(cert)+string(key))
		d := diagnoseHost(t, m)
		ids, text := hostWords(d)
		if ids != tt.want || tt.want != "" && strings.Contains(d.Causes[0].Next, "until test") {
			t.Errorf("%+v: got %s\n%s", tt, ids, text)
		}
	}
}
