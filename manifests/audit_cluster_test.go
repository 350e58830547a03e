package manifests_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/apply"
	"github.com/ccmadm/ccmadm/manifests/manifeststest"
	"github.com/ccmadm/ccmadm/templates"
)

// cluster is the control plane that all tests share whose name starts with TestCluster; -short leaves those out.
var cluster *manifeststest.ControlPlane

func TestMain(m *testing.M) { os.Exit(manifeststest.Main(m, &cluster)) }

// Where a vendor's program cannot run, the requests that it makes are made in its place, under its name and with
// nothing but the permissions that are rendered for it.
func TestCluster_Audit(t *testing.T) {
	if _, err := envtest.InstallCRDs(cluster.Config, envtest.CRDInstallOptions{Paths: []string{"crds"}, MaxTime: time.Minute}); err != nil {
		t.Fatal(err)
	}
	for _, name := range templates.Names() {
		p, err := templates.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, mode := range identities(p) {
			t.Run(fmt.Sprintf("%s as %s", name, mode), func(t *testing.T) {
				grant(t, p, mode)
				a := auditOf(t, p)
				user := "system:serviceaccount:kube-system:" + p.Name + "-" + v1alpha1.Component
				if mode == templates.StaticPod {
					user = v1alpha1.StaticPodUser
				}
				replay(t, user, a)
				for _, agent := range p.Agents {
					replay(t, "system:serviceaccount:kube-system:"+p.Name+"-"+agent.Name, a.Agents[agent.Name])
				}
			})
		}
	}
}

// identities are the modes of a profile, of those with the same user the first only.
func identities(p *templates.Profile) []templates.Mode {
	modes := []templates.Mode{p.Modes[0]}
	for _, mode := range p.Modes[1:] {
		if (mode == templates.StaticPod) != (modes[0] == templates.StaticPod) {
			return append(modes, mode)
		}
	}
	return modes
}

// grant applies what is rendered, and takes it away after the test, for static pods of all providers have one user.
func grant(t *testing.T, p *templates.Profile, mode templates.Mode) {
	t.Helper()
	objects, err := manifests.RBAC(p, manifeststest.Values(p, mode, "v1.36.0", true))
	if err != nil {
		t.Fatal(err)
	}
	applier, err := apply.NewCluster(cluster.Config, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := applier.Apply(t.Context(), "rbac", objects); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := applier.Remove(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

func replay(t *testing.T, user string, a audit) {
	t.Helper()
	administrator := httpClient(t, "")
	client := httpClient(t, user)
	for _, call := range a.Allowed {
		known(t, administrator, call)
		var answer answer
		// An authorizer sees new permissions a moment later.
		err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true,
			func(ctx context.Context) (bool, error) {
				answer = send(ctx, t, client, call)
				return answer.code != http.StatusForbidden, nil
			})
		if err != nil || answer.code == http.StatusUnauthorized {
			t.Errorf("%s: %s: %s", user, call, answer.status.Message)
		}
	}
	for _, call := range a.Forbidden {
		known(t, administrator, call)
		err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true,
			func(ctx context.Context) (bool, error) {
				return send(ctx, t, client, call).code == http.StatusForbidden, nil
			})
		if err != nil {
			t.Errorf("%s: %s: want it forbidden", user, call)
		}
	}
}

// known makes sure that a request is one that the API server understands: a path that is mistyped is no proof.
func known(t *testing.T, administrator *http.Client, call string) {
	t.Helper()
	a := send(t.Context(), t, administrator, call)
	noSuchObject := a.status.Details != nil && a.status.Details.Name != ""
	if a.code == http.StatusNotFound && !noSuchObject || a.code == http.StatusMethodNotAllowed {
		t.Fatalf("%s: the API server has no such thing: %d %s", call, a.code, a.status.Message)
	}
}

type answer struct {
	code   int
	status metav1.Status
}

// send makes a request that changes nothing: what it writes is a dry run, or no object at all.
func send(ctx context.Context, t *testing.T, client *http.Client, call string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	method, uri, _ := strings.Cut(call, " ")
	var body io.Reader
	if method != http.MethodGet {
		body = strings.NewReader("{}")
		uri += "?dryRun=All"
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(cluster.Config.Host, "/")+uri, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	a := answer{code: resp.StatusCode}
	if a.code >= http.StatusBadRequest { // else it may be a watch, which has no end
		_ = json.NewDecoder(resp.Body).Decode(&a.status) // what is not a Status stays empty
	}
	return a
}

// httpClient speaks to the API server as the user, or as the administrator.
func httpClient(t *testing.T, user string) *http.Client {
	t.Helper()
	config := rest.CopyConfig(cluster.Config)
	if user != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
