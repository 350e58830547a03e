package apply

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

// observer calls seen after each request.
type observer struct {
	next http.RoundTripper
	seen func(*http.Response, error)
}

func (o observer) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := o.next.RoundTrip(req)
	o.seen(resp, err)
	return resp, err
}

func observe(cfg *rest.Config, seen func(*http.Response, error)) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return observer{next, seen} })
	return cfg
}

func TestCluster_Apply_BeforeRBAC(t *testing.T) {
	late, err := cluster.User("late-administrator")
	if err != nil {
		t.Fatal(err)
	}
	api := kubernetes.NewForConfigOrDie(cluster.Config).RbacV1().ClusterRoleBindings()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "late-administrator"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "late-administrator"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}
	ctx, refused := t.Context(), sync.OnceFunc(func() {
		if _, err := api.Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	})
	c := newCluster(t, observe(late, func(resp *http.Response, err error) {
		if err == nil && resp.StatusCode == http.StatusForbidden {
			refused()
		}
	}), false)
	wantChanges(t, changesWith("created", rbacSubjects()...), apply(t, c, "rbac", rbacObjects(t)))
	if err := api.Delete(ctx, "late-administrator", metav1.DeleteOptions{}); err != nil {
		t.Errorf("it was never refused: %v", err)
	}
}

func TestCluster_Apply_BeforeTheAPIServer(t *testing.T) {
	server, err := url.Parse(cluster.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	address, listen := manifeststest.Bound(t)
	started := false
	start := sync.OnceFunc(func() {
		started = true
		forward(listen(), server.Host)
	})
	cfg := observe(cluster.Config, func(_ *http.Response, err error) {
		if err != nil {
			start()
		}
	})
	cfg.Host = "https://" + address
	wantChanges(t, changesWith("created", rbacSubjects()...), apply(t, newCluster(t, cfg, false), "rbac", rbacObjects(t)))
	if !started {
		t.Error("it was never refused")
	}
}

// forward is the API server coming up at another address.
func forward(listener net.Listener, to string) {
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return // closed at the end of the test
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
			go func() { _, _ = io.Copy(in, out); _ = in.Close() }()
		}
	}()
}
