package host

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
)

// apiServer answers a kubelet of Node cp1 for the Service and for kube-proxy's pod.
type apiServer struct {
	forbids bool
	asked   int
	goes    int // it answers so many questions for the Service, and then no more
	proxy   *corev1.Pod
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var object any
	switch {
	case r.URL.Path == "/api/v1/namespaces/default/services/kubernetes":
		a.asked++
		if a.forbids || a.goes > 0 && a.asked > a.goes {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		object = &corev1.Service{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.1"}},
		}
	case r.URL.Path == "/api/v1/namespaces/kube-system/pods":
		list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
		if r.URL.Query().Get("fieldSelector") == "spec.nodeName=cp1" && a.proxy != nil {
			list.Items = append(list.Items, *a.proxy)
		}
		object = list
	case strings.HasPrefix(r.URL.Path, "/api/v1/nodes/"):
		object = &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object)
}

// kubeletOf gives the machine of Node cp1 the kubeconfig of its kubelet.
func kubeletOf(t *testing.T, m *machine.Machine, server string) {
	t.Helper()
	cert, key := nodeIdentity(t, 365*24*time.Hour)
	machinetest.Put(t, m, machine.KubeletConf, kubeconfigOf(server, cert, key))
}

// kubeconfigOf is a kubeconfig of one user with a certificate, and its key, in PEM.
func kubeconfigOf(server string, cert, key []byte) string {
	encoded := base64.StdEncoding.EncodeToString
	return "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: \"" + server +
		"\", insecure-skip-tls-verify: true}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n" +
		"users: [{name: u, user: {client-certificate-data: " + encoded(cert) + ", client-key-data: " + encoded(key) + "}}]\n"
}

// nodeIdentity is a certificate of the kubelet of Node cp1 that ends after a while, or has, and its key.
func nodeIdentity(t *testing.T, left time.Duration) (cert, private []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(left),
		Subject: pkix.Name{CommonName: "system:node:cp1", Organization: []string{"system:nodes"}},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	private, err = x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}

// proxyPod has run for an hour, or waits for a reason.
func proxyPod(ago time.Duration, waits string) *corev1.Pod {
	state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now().Add(-ago))}}
	if waits != "" {
		state = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: waits}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-proxy-rx8fs"},
		Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: state}}},
	}
}

// TestLook_Service: the Service answers; it is refused, or leads nowhere; it cannot be asked, which is no fault.
func TestLook_Service(t *testing.T) {
	refused := func() error { return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED} }
	restart := "kubectl -n kube-system delete pod kube-proxy-rx8fs"
	for name, tt := range map[string]struct {
		server            apiServer
		dial              func() error
		want, words, next string
		unseen            bool
	}{
		"answers": {server: apiServer{proxy: proxyPod(time.Hour, "")}},
		"refused": {server: apiServer{proxy: proxyPod(time.Hour, "")}, dial: refused, want: "K13", words: "at 10.96.0.1:443: dial tcp: connection refused", next: restart},
		"no route": {
			server: apiServer{proxy: proxyPod(time.Hour, "")}, dial: func() error { return syscall.EHOSTUNREACH }, want: "K13", words: "no route to host", next: restart,
		},
		"refused, and kube-proxy crashes": {
			server: apiServer{proxy: proxyPod(0, "CrashLoopBackOff")}, dial: refused, want: "K13", words: "kube-proxy does not run: CrashLoopBackOff",
			next: "kubectl -n kube-system logs --previous kube-proxy-rx8fs",
		},
		"refused, and no kube-proxy": {
			dial: refused, want: "K13", words: "no pod of kube-proxy is on this Node", next: "kubectl -n kube-system get pods -o wide --field-selector spec.nodeName=cp1",
		},
		"kube-proxy has just been started":             {server: apiServer{proxy: proxyPod(time.Second, "")}, dial: refused},
		"the kubelet may not ask":                      {server: apiServer{forbids: true}, dial: refused, unseen: true},
		"the API server has gone while this was asked": {server: apiServer{goes: 1, proxy: proxyPod(time.Hour, "")}, dial: refused, unseen: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, _ := newHost(t, 0)
			server := httptest.NewTLSServer(&tt.server)
			t.Cleanup(server.Close)
			kubeletOf(t, m, server.URL)
			tries := 0
			m.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				if tries++; address != "10.96.0.1:443" {
					return nil, fmt.Errorf("asked %s", address)
				}
				if tt.dial != nil {
					return nil, tt.dial()
				}
				return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
			}
			d := diagnoseHost(t, m)
			ids, text := hostWords(d)
			if ids != tt.want || !strings.Contains(text, tt.words) {
				t.Errorf("got %s %s\nwant %s %s", ids, text, tt.want, tt.words)
			}
			if tt.want != "" && (d.Causes[0].Next != tt.next || tries != serviceAttempts) {
				t.Errorf("asked %d times; next %s", tries, d.Causes[0].Next)
			}
			unseen := slices.ContainsFunc(d.NotSeen, func(n diagnosis.NotSeen) bool { return n.What == diagnosis.HostServicePart })
			if unseen != tt.unseen {
				t.Errorf("not seen: %v", d.NotSeen)
			}
		})
	}
}

// A control plane that has just gone may be asked first: one answer is an answer.
func TestLook_ServiceOnce(t *testing.T) {
	m, _ := newHost(t, 0)
	server := httptest.NewTLSServer(&apiServer{proxy: proxyPod(time.Hour, "")})
	t.Cleanup(server.Close)
	kubeletOf(t, m, server.URL)
	tries := 0
	m.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		if tries++; tries < serviceAttempts {
			return nil, syscall.ECONNREFUSED
		}
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}
	if ids, text := hostWords(diagnoseHost(t, m)); ids != "" || tries != serviceAttempts {
		t.Errorf("after %d: %s %s", tries, ids, text)
	}
}

// TestLook_Server: an API server that does not answer is a finding of its machine, with the way in which it does not.
func TestLook_Server(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	for name, tt := range map[string]struct {
		dial  func() error
		kind  diagnosis.Unreachable
		words string
	}{
		"refused":         {dial: func() error { return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED} }, kind: diagnosis.Refused, words: "refused"},
		"no route":        {dial: func() error { return syscall.EHOSTUNREACH }, kind: diagnosis.NoRoute, words: "no way to it"},
		"no name":         {dial: func() error { return &net.DNSError{Err: "no such host", Name: "api"} }, kind: diagnosis.NameUnknown, words: "does not resolve"},
		"dropped":         {dial: func() error { return os.ErrDeadlineExceeded }, kind: diagnosis.Dropped, words: "drops packets"},
		"another program": {kind: diagnosis.OtherProgram, words: "not an API server"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, _ := newHost(t, 0)
			kubeletOf(t, m, strings.Replace(plain.URL, "http:", "https:", 1))
			m.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				if tt.dial != nil {
					return nil, tt.dial()
				}
				return new(net.Dialer).DialContext(ctx, network, address)
			}
			seen, _ := Look(t.Context(), m)
			if seen.Server == nil || seen.Server.Kind != tt.kind {
				t.Fatalf("got %+v, want %s", seen.Server, tt.kind)
			}
			s := &diagnosis.Snapshot{Host: seen, Taken: time.Now()}
			for _, c := range diagnosis.Diagnose(s).Causes {
				if c.ID == finding.ServerUnreached && strings.Contains(c.Message, tt.words) && c.Next != "" {
					return
				}
			}
			t.Errorf("no finding has %q", tt.words)
		})
	}
}

// TestLook_Forwarding: 0 is a finding; 1, and a machine without the file, are none.
func TestLook_Forwarding(t *testing.T) {
	for value, want := range map[string]string{"0\n": "K15", "1\n": "", "": ""} {
		m, _ := newHost(t, 0)
		if value != "" {
			machinetest.Put(t, m, "/proc/sys/net/ipv4/ip_forward", value)
		}
		if ids, _ := hostWords(diagnoseHost(t, m)); ids != want {
			t.Errorf("with %q got %q, want %q", value, ids, want)
		}
	}
}
