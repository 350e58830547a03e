package agent

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/apply"
	"github.com/ccmadm/ccmadm/provider/objects"
)

// start runs an agent that hears itself on loopback alone, and returns what ends it, and its result.
func start(t *testing.T, o Options) (context.CancelFunc, <-chan error) {
	t.Helper()
	dir := t.TempDir()
	o.HeartbeatKeyFile = filepath.Join(dir, "heartbeat")
	if err := os.WriteFile(o.HeartbeatKeyFile, bytes.Repeat([]byte{1}, 32), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Version, o.Address, o.MetricsAddress = "test", addr("127.0.0.1"), "127.0.0.1:0"
	_, port, _ := strings.Cut(freePort(t), ":")
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	o.HeartbeatPort = uint16(n)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o) }()
	t.Cleanup(cancel)
	return cancel, ended
}

func freePort(t *testing.T) string {
	t.Helper()
	l := listen(t, "127.0.0.1:0")
	_ = l.Close()
	return l.Addr().String()
}

func ends(t *testing.T, cancel context.CancelFunc, ended <-chan error) {
	t.Helper()
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("told to end: %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("told to end, it did not within a minute")
	}
}

func applyDefinitions(t testing.TB) {
	t.Helper()
	crds, err := manifests.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	applier, err := apply.NewCluster(plane.Config, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := applier.Apply(t.Context(), apply.NodeAgent, crds); err != nil {
		t.Fatal(err)
	}
}

// An agent reports in an object that its Node owns, and ends when it is told to.
func TestCluster_Run_Reports(t *testing.T) {
	applyDefinitions(t)
	client := kubernetes.NewForConfigOrDie(plane.Config)
	node, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	data, err := plane.Kubeconfig("agent", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, data, 0o600); err != nil {
		t.Fatal(err)
	}
	listeners := []net.Listener{listen(t, "0.0.0.0:0"), listen(t, "[::]:0"), listen(t, "127.0.0.1:0")}
	cancel, ended := start(t, Options{NodeName: "w1", Kubeconfig: kubeconfig})
	ours, err := objects.New(plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	var report *v1alpha1.NodeAgent
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		report, err = ours.NodeAgents.Get(t.Context(), "w1", metav1.GetOptions{})
		if err == nil && report.Status.Version == "test" {
			break
		}
		if len(ended) > 0 || time.Since(began) > time.Minute {
			cancel()
			t.Fatalf("no report: %v; the agent: %v", err, <-ended)
		}
	}
	if len(report.OwnerReferences) != 1 || report.OwnerReferences[0].UID != node.UID {
		t.Errorf("its owners are %v, want the Node", report.OwnerReferences)
	}
	if time.Since(report.Status.RenewTime.Time) > time.Minute {
		t.Errorf("it was renewed at %s", report.Status.RenewTime)
	}
	for i, l := range listeners {
		name := fmt.Sprintf("tcp/%d", l.Addr().(*net.TCPAddr).Port)
		if got, want := slices.Contains(report.Status.Listening, name), i < 2; got != want {
			t.Errorf("it says that %s listens: %t, want %t", l.Addr(), got, want)
		}
	}
	ends(t, cancel, ended)
}

func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// Without an API server an agent waits, announces nothing, and ends when it is told to.
func TestRun_WaitsForTheAPIServer(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	config := `{"apiVersion": "v1", "kind": "Config", "current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "x"}}],
"clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:1"}}]}`
	if err := os.WriteFile(kubeconfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cancel, ended := start(t, Options{NodeName: "w1", Kubeconfig: kubeconfig})
	select {
	case err := <-ended:
		t.Fatalf("it ended: %v", err)
	case <-time.After(time.Second):
	}
	ends(t, cancel, ended)
}
