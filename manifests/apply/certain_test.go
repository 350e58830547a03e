package apply

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
)

// roundTrip is a client's transport.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// answersOnce is the cluster, but for the first GET of the Secret with the agents' key.
func answersOnce(code int, body string) (cfg *rest.Config, asked *atomic.Bool) {
	cfg, asked = rest.CopyConfig(cluster.Config), new(atomic.Bool)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			is := req.Method == http.MethodGet && strings.HasSuffix(req.URL.Path, "/secrets/"+v1alpha1.AgentName)
			if !is || asked.Swap(true) {
				return next.RoundTrip(req)
			}
			return &http.Response{
				StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
				Body: io.NopCloser(strings.NewReader(body)),
			}, nil
		})
	})
	return cfg, asked
}

// leaderChanged is what an API server says for a moment when etcd has another leader.
const leaderChanged = `{"kind": "Status", "apiVersion": "v1", "status": "Failure",
	"message": "etcdserver: leader changed", "code": 500}`

func keySecret(t *testing.T, letter byte) []*manifests.Object {
	t.Helper()
	secret, err := manifests.HeartbeatSecret(bytes.Repeat([]byte{letter}, manifests.HeartbeatKeySize))
	if err != nil {
		t.Fatal(err)
	}
	return []*manifests.Object{secret}
}

func wantKey(t *testing.T, letter byte) {
	t.Helper()
	secrets := kubernetes.NewForConfigOrDie(cluster.Config).CoreV1().Secrets(v1alpha1.Namespace)
	secret, err := secrets.Get(t.Context(), v1alpha1.AgentName, metav1.GetOptions{})
	if err != nil || secret.Data[v1alpha1.HeartbeatKey][0] != letter {
		t.Errorf("the key is not the one that was made first: %v", err)
	}
}

// What is only ever created stays as it is, whatever a look at it is answered.
func TestCluster_Apply_CreatesOnce(t *testing.T) {
	subjects := []string{"Secret/kube-system/" + v1alpha1.AgentName, "ConfigMap/kube-system/ccmadm-applied"}
	first := newCluster(t, cluster.Config, false)
	wantChanges(t, changesWith("created", subjects...), apply(t, first, NodeAgent, keySecret(t, 'a')))
	notFound := strings.Replace(leaderChanged, "500", `404, "reason": "NotFound"`, 1)
	wanted := changesWith("unchanged", subjects...)
	wanted[0].Action = "skipped"
	for name, answer := range map[string]struct {
		code int
		body string
	}{
		"etcd has another leader":               {http.StatusInternalServerError, leaderChanged},
		"a load balancer knows no server":       {http.StatusServiceUnavailable, "no server is available"},
		"it is not there, by a server's answer": {http.StatusNotFound, notFound},
	} {
		for _, force := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				cfg, asked := answersOnce(answer.code, answer.body)
				c, err := NewCluster(cfg, force)
				if err != nil {
					t.Fatal(err)
				}
				wantChanges(t, wanted, apply(t, c, NodeAgent, keySecret(t, 'b')))
				wantKey(t, 'a')
				if !asked.Load() {
					t.Error("it was not asked for")
				}
			})
		}
	}
}

// A dry run says that it could not look, and not that something would change.
func TestCluster_Printer_CouldNotLook(t *testing.T) {
	apply(t, newCluster(t, cluster.Config, false), NodeAgent, keySecret(t, 'a'))
	cfg, _ := answersOnce(http.StatusInternalServerError, leaderChanged)
	p, out := printer(t, cfg)
	changes, err := p.Apply(t.Context(), NodeAgent, keySecret(t, 'b'))
	want := "look at Secret/kube-system/" + v1alpha1.AgentName + ": etcdserver: leader changed"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, changes %v\n%s", err, changes, out)
	}
	if out.Len() > 0 {
		t.Errorf("it shows a difference:\n%s", out)
	}
}
