package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
	"github.com/ccmadm/ccmadm/provider/conformance"
)

// TestMain lets the test binary be the command, too.
func TestMain(m *testing.M) {
	testscript.Main(suite{m}, map[string]func(){providerName: main})
}

// plane is what the tests named TestCluster... share, one after the other: the kit refuses a cluster that has Nodes.
var plane *manifeststest.ControlPlane

type suite struct{ m *testing.M }

func (s suite) Run() int { return manifeststest.Main(s.m, &plane) }

// server is the cloud behind the provider.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	machines map[string]*record // by id
	fault    conformance.Fault
	healed   chan struct{}
}

type record struct {
	machine
	name string
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{machines: map[string]*record{}, healed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /by-id/{key}", s.answer(func(r *record, key string) bool { return r.ID == key }))
	mux.HandleFunc("GET /by-name/{key}", s.answer(func(r *record, key string) bool { return r.name == key }))
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *server) answer(matches func(*record, string) bool) http.HandlerFunc {
	status := map[conformance.Fault]int{
		conformance.Forbidden: 403, conformance.WrongProject: 404, conformance.Throttled: 429, conformance.Unavailable: 500,
	}
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		fault, healed := s.fault, s.healed
		s.mu.Unlock()
		if fault == conformance.Slow {
			select {
			case <-healed:
			case <-r.Context().Done():
			}
		} else if fault != "" {
			w.WriteHeader(status[fault])
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, m := range s.machines {
			if matches(m, r.PathValue("key")) {
				_ = json.NewEncoder(w).Encode(m.machine) // who does not read it to the end has an error of its own
				return
			}
		}
		w.WriteHeader(http.StatusGone)
	}
}

// change calls f, and nobody reads meanwhile.
func (s *server) change(f func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	return nil
}

func (s *server) add(m conformance.Machine) error {
	r := &record{machine{ID: m.UUID, Zone: "a"}, m.Name}
	for _, address := range m.Addresses {
		r.IPs = append(r.IPs, address.Address)
	}
	return s.change(func() { s.machines[m.UUID] = r })
}

func (s *server) set(f conformance.Fault) func(bool) {
	return func(on bool) {
		_ = s.change(func() {
			switch {
			case on:
				s.fault, s.healed = f, make(chan struct{})
			case s.fault == f:
				close(s.healed)
				s.fault = ""
			}
		})
	}
}

func TestCluster_Conformance(t *testing.T) {
	conformance.Run(t, conformance.Options{Config: plane.Config, New: func() (conformance.Cloud, error) {
		s := newServer(t)
		provider, err := newCloud(strings.NewReader("url: " + s.URL))
		return conformance.Cloud{
			Provider: provider,
			Add:      s.add,
			Remove: func(m conformance.Machine) error {
				return s.change(func() { delete(s.machines, m.UUID) })
			},
			Rename: func(m conformance.Machine, name string) error {
				return s.change(func() { s.machines[m.UUID].name = name })
			},
			Stop:  func(m conformance.Machine) error { return s.change(func() { s.machines[m.UUID].Off = true }) },
			Start: func(m conformance.Machine) error { return s.change(func() { s.machines[m.UUID].Off = false }) },
			Faults: map[conformance.Fault]func(bool){
				conformance.Forbidden:    s.set(conformance.Forbidden),
				conformance.WrongProject: s.set(conformance.WrongProject),
				conformance.Throttled:    s.set(conformance.Throttled),
				conformance.Unavailable:  s.set(conformance.Unavailable),
				conformance.Slow:         s.set(conformance.Slow),
			},
		}, err
	}})
}

func TestNewCloud(t *testing.T) {
	for _, tt := range []struct {
		name, config, wantErr string
	}{
		{"url", "url: https://cloud.example.org/project-1", ""},
		{"nothing", "", "url: parse"},
		{"no url", "url: cloud", "url: parse"},
		{"another field", "url: https://cloud.example.org\nregion: a", `unknown field "region"`},
		{"gcfg", "[Global]\nurl = https://cloud.example.org", "decode cloud config"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := newCloud(strings.NewReader(tt.config))
			if tt.wantErr == "" && err != nil {
				t.Fatal(err)
			}
			if tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)) {
				t.Errorf("got error %v, want one with %q", err, tt.wantErr)
			}
		})
	}
	if _, err := newCloud(nil); err == nil || !strings.Contains(err.Error(), "--cloud-config") {
		t.Errorf("got error %v without a file", err)
	}
}

// The command itself initializes a Node.
func TestCluster_Command(t *testing.T) {
	s := newServer(t)
	if err := s.add(conformance.Machine{
		Name: "w1", UUID: "m-1",
		Addresses: []corev1.NodeAddress{{Address: "198.18.0.2"}},
	}); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := plane.Kubeconfig("example", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	cmd := exec.CommandContext(t.Context(), providerName,
		"--cloud-provider="+providerName, "--cloud-config="+write("cloud.yaml", []byte("url: "+s.URL)),
		"--kubeconfig="+write("kubeconfig", kubeconfig), "--authentication-skip-lookup", "--leader-elect=false",
		"--configure-cloud-routes=false", "--secure-port=0")
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil && t.Failed() {
			t.Logf("%v\n%s", err, &log)
		}
	})
	client, err := kubernetes.NewForConfig(plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), "w1", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	_, err = client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "w1"},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{
			Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true",
			Effect: corev1.TaintEffectNoSchedule,
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := awaitProviderID(t, client, "w1", "example://m-1"); err != nil {
		t.Error(err)
	}
}

// awaitProviderID polls until the Node has it.
func awaitProviderID(t *testing.T, client kubernetes.Interface, name, want string) error {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		node, err := client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && node.Spec.ProviderID == want {
			return nil
		}
		select {
		case <-deadline:
			return errors.Join(errors.New("the Node is not initialized after a minute"), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
