package rehearsal

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ccmadm/ccmadm/manifests/manifeststest"
)

// TestCluster_Attack: whatever a program tries with its kubeconfig, nothing arrives. The same attack without a proxy
// shows that it would have done harm.
func TestCluster_Attack(t *testing.T) {
	victim, err := manifeststest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := victim.Stop(); err != nil {
			t.Error(err)
		}
	})
	client, err := kubernetes.NewForConfig(victim.Config)
	if err != nil {
		t.Fatal(err)
	}
	seed(t, client)
	list, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := newShadow(list.Items, uninitialized)
	p, err := serve(t.Context(), readOnly(victim.Config), s, nil, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	behind, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	before := everything(t, client)
	codes := attack(t, client.Discovery(), behind)
	t.Logf("behind the proxy: %v", codes)
	if diff := cmp.Diff(before, everything(t, client)); diff != "" {
		t.Errorf("the cluster has changed:\n%s", diff)
	}
	if !s.deleted["n1"] || len(s.refused) < 50 {
		t.Errorf("deleted %v, refused %d kinds: the attack has not reached the proxy", s.deleted, len(s.refused))
	}
	stranger := rest.AnonymousClientConfig(behind)
	stranger.BearerToken = "guessed"
	codes = attack(t, client.Discovery(), stranger)
	if len(codes) != 1 || codes[http.StatusUnauthorized] == 0 {
		t.Errorf("answers to a stranger are %v, want 401 only", codes)
	}
	t.Logf("without: %v", attack(t, client.Discovery(), victim.Config))
	if cmp.Equal(before, everything(t, client)) {
		t.Error("the attack does no harm without a proxy either: it shows nothing")
	}
}

// TestCluster_ProxyReads: what is read is what the cluster has, and no Secret that the profile does not name.
func TestCluster_ProxyReads(t *testing.T) {
	client := adminClient(t)
	p, err := serve(t.Context(), readOnly(plane.Config), newShadow(nil, uninitialized), nil, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	behind, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	got, err := behind.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want, err := client.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v, %s", err, cmp.Diff(got, want))
	}
	if _, err := behind.CoreV1().Secrets("kube-system").List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("it may list Secrets")
	}
}

func seed(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "n1"}
	_, nodeErr := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: meta}, metav1.CreateOptions{})
	core, none := client.CoreV1(), metav1.CreateOptions{}
	_, mapErr := core.ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: meta}, none)
	_, secretErr := core.Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: meta}, none)
	_, accountErr := core.ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: meta}, none)
	for _, err := range []error{nodeErr, mapErr, secretErr, accountErr} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// attack sends every write there is to every resource. It returns how often each status came.
func attack(t *testing.T, d discovery.DiscoveryInterface, as *rest.Config) map[int]int {
	t.Helper()
	lists, err := d.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	kinds := map[string]string{}
	for _, list := range lists {
		base := "/apis/" + list.GroupVersion
		if list.GroupVersion == "v1" {
			base = "/api/v1"
		}
		for _, r := range list.APIResources {
			path := base + "/" + r.Name
			if r.Namespaced {
				path = base + "/namespaces/default/" + r.Name
			}
			paths = append(paths, path)
			kinds[path] = fmt.Sprintf(`"apiVersion":%q,"kind":%q`, list.GroupVersion, r.Kind)
		}
	}
	if len(paths) < 50 {
		t.Fatalf("%d resources are few", len(paths))
	}
	codes := map[int]int{}
	send := func(method, path, body string, header ...string) {
		codes[sendRequest(t, as, method, path, body, header...)]++
	}
	slices.Reverse(paths) // namespaces go last
	for _, path := range paths {
		object := fmt.Sprintf(`{%s,"metadata":{"name":"attack","namespace":"default"}}`, kinds[path])
		send("POST", path, object)
		send("POST", path+"?dryRun=All&dryRun=", object)
		send("PUT", path+"/n1", strings.Replace(object, "attack", "n1", 1))
		for _, kind := range []string{"merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"} {
			label := strings.Replace(object, `"metadata":{`, `"metadata":{"labels":{"attacked":"yes"},`, 1)
			label, kind = strings.Replace(label, `"attack"`, `"n1"`, 1), "Content-Type: application/"+kind
			send("PATCH", path+"/n1?force=true&fieldManager=x", label, kind)
			send("PATCH", path+"/n1/status?force=true&fieldManager=x", label, kind)
		}
		send("DELETE", path+"/n1?dryRun=All", `{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":0}`)
		send("DELETE", path+"/n1", "")
		if !strings.HasSuffix(path, "/namespaces") && !strings.Contains(path, "/apiservices") {
			send("DELETE", path, "")
		}
	}
	attackSideways(send)
	return codes
}

// attackSideways sends what is not called a write but is one, or is meant to be read as one.
func attackSideways(send func(method, path, body string, header ...string)) {
	for _, path := range []string{
		"/api/v1/namespaces/default/serviceaccounts/n1/token", "/api/v1/namespaces/default/pods/n1/exec?command=sh",
		"/api/v1/namespaces/default/pods/n1/attach", "/api/v1/namespaces/default/pods/n1/portforward",
		"/api/v1/namespaces/default/services/n1/proxy/", "/api/v1/namespaces/default/pods/n1/eviction",
		"/api/v1/namespaces/default/pods/n1/binding", "/api/v1/nodes/n1/proxy/run", "/api/v1/proxy/nodes/n1/run",
		"//api/v1/nodes/n1", "/api/v1/./nodes/n1", "/api/v1/x/%2e%2e/nodes/n1", "/api/v1/watch/nodes/n1", "/logs/",
	} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD"} {
			send(method, path, "{}", "Connection: Upgrade", "Upgrade: SPDY/3.1")
			send(method, path, "{}", "X-HTTP-Method-Override: DELETE", "Impersonate-User: admin",
				"Impersonate-Group: system:masters")
		}
	}
}

// sendRequest sends one request and returns its status.
func sendRequest(t *testing.T, as *rest.Config, method, path, body string, header ...string) int {
	t.Helper()
	as = rest.CopyConfig(as)
	as.NextProtos = []string{"http/1.1"} // the newer one has no Upgrade
	client, err := rest.HTTPClientFor(as)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(as.Host, "/")+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer time.AfterFunc(5*time.Second, cancel).Stop() // one of them is a watch
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20)); err != nil {
		t.Logf("%s %s: %v", method, path, err)
	}
	return response.StatusCode
}
