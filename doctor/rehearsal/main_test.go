package rehearsal

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

var plane *manifeststest.ControlPlane

// programs is a folder for what several tests use.
var programs string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if programs, err = os.MkdirTemp("", "rehearsal-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(programs) //nolint:errcheck // a temporary directory
	return manifeststest.Main(m, &plane)
}

// built is a cloud-controller-manager of upstream's parts, whose provider asks a cloud over HTTP. It is linked once: that takes seconds.
var built = sync.OnceValues(func() (string, error) {
	file := filepath.Join(programs, "ccm")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", file, "../../provider/conformance/example")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the example of a provider: %w\n%s", err, out)
	}
	return file, nil
})

func program(t testing.TB) string {
	t.Helper()
	file, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// cloud answers for machines by what their names begin with.
type cloud struct {
	*httptest.Server
	latency time.Duration
	asked   atomic.Int64
	mu      sync.Mutex
	times   map[string]int
}

// nth counts the questions about a machine.
func (c *cloud) nth(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times[name]++
	return c.times[name]
}

func newCloud(t testing.TB, latency time.Duration) *cloud {
	t.Helper()
	c := &cloud{latency: latency, times: map[string]int{}}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

// ServeHTTP tells of a machine by its ID, which is its name.
func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.asked.Add(1)
	time.Sleep(c.latency)
	name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	nth := c.nth(name)
	switch {
	case strings.HasPrefix(name, "flaky") && (nth == 1 || nth == 3): // once in each pass
		w.WriteHeader(http.StatusServiceUnavailable)
	case strings.HasPrefix(name, "gone"), strings.HasPrefix(name, "renamed"):
		w.WriteHeader(http.StatusGone)
	case strings.HasPrefix(name, "error"):
		w.WriteHeader(http.StatusPaymentRequired)
	default:
		off := strings.HasPrefix(name, "off")
		machine := map[string]any{"ID": name, "Zone": "z1", "Type": "metal", "IPs": []string{"192.0.2.1"}, "Off": off}
		_ = json.NewEncoder(w).Encode(machine) // who does not read it to the end has an error of its own
	}
}

// options are those for the example's program.
func (c *cloud) options(t testing.TB, file string) Options {
	t.Helper()
	config := filepath.Join(t.TempDir(), "cloud.conf")
	if err := os.WriteFile(config, []byte("url: "+c.URL+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return Options{
		Cluster: plane.Config, Program: file, Args: []string{"--cloud-provider=example", "--cloud-config=" + config},
		Lifecycle: true, Timeout: 4 * time.Minute, Progress: func(text string) { t.Log(text) },
	}
}

// addNodes makes Nodes, n for each of the names, with a provider ID if asked, and removes them at the end.
func addNodes(t testing.TB, client kubernetes.Interface, n int, withID bool, names ...string) {
	t.Helper()
	for _, name := range names {
		for i := range n {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, i)}}
			if withID {
				node.Spec.ProviderID = "example://" + node.Name
			}
			if _, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		err := client.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		if err != nil {
			t.Error(err)
		}
	})
}

func adminClient(t testing.TB) kubernetes.Interface {
	t.Helper()
	config := *plane.Config
	config.QPS, config.Burst = 500, 1000
	client, err := kubernetes.NewForConfig(&config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// everything is what the cluster has of the kinds that a cloud-controller-manager could write, byte for byte.
func everything(t testing.TB, client kubernetes.Interface) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, path := range []string{
		"/api/v1/nodes", "/api/v1/services", "/api/v1/events", "/api/v1/configmaps", "/api/v1/secrets",
		"/api/v1/serviceaccounts", "/api/v1/pods", "/api/v1/namespaces", "/api/v1/endpoints",
		"/apis/coordination.k8s.io/v1/namespaces/default/leases",
		"/apis/rbac.authorization.k8s.io/v1/clusterroles", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
		"/apis/discovery.k8s.io/v1/endpointslices", "/apis/apps/v1/deployments", "/apis/apps/v1/daemonsets",
	} {
		data, err := client.CoreV1().RESTClient().Get().AbsPath(path).DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var list struct{ Items []json.RawMessage }
		if err := json.Unmarshal(data, &list); err != nil {
			t.Fatal(err)
		}
		for i, item := range list.Items {
			found[fmt.Sprintf("%s %d", path, i)] = string(item)
		}
	}
	return found
}
