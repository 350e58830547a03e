package helm

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// start runs the lab's newest kube-apiserver with its etcd, and returns a kubeconfig of its administrator.
func start(t *testing.T) (kubeconfig string, config *rest.Config) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(cache, "ccmadm-lab", "kubernetes-*", "kube-apiserver"))
	found = slices.DeleteFunc(found, func(path string) bool { return strings.HasSuffix(filepath.Dir(path), ".new") }) // being built
	if err != nil || len(found) == 0 {
		t.Fatalf("no kube-apiserver in %s: make chart-check builds it (%v)", cache, err)
	}
	env := &envtest.Environment{ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: time.Minute}
	env.ControlPlane.Etcd = &envtest.Etcd{Path: filepath.Join(filepath.Dir(slices.Max(found)), "server")}
	env.ControlPlane.GetAPIServer().Path = slices.Max(found)
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	if config, err = env.Start(); err != nil {
		t.Fatal(err)
	}
	user, err := env.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := user.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig, config
}

// everything names all objects of a cluster, but those that come and go by themselves.
func everything(t *testing.T, config *rest.Config) map[string]bool {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	discovered, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := discovered.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || r.Name == "events" || r.Name == "leases" || r.Name == "apiservices" || r.Name == "componentstatuses" {
				continue
			}
			objects, err := client.Resource(gv.WithResource(r.Name)).List(t.Context(), metav1.ListOptions{})
			if apierrors.IsNotFound(err) { // its definition was deleted meanwhile
				continue
			}
			if err != nil {
				t.Fatalf("list %s: %v", r.Name, err)
			}
			for _, o := range objects.Items {
				names[fmt.Sprintf("%s %s/%s", r.Kind, o.GetNamespace(), o.GetName())] = true
			}
		}
	}
	return names
}

// settled is everything, once what an API server makes after its start is there.
func settled(t *testing.T, config *rest.Config) map[string]bool {
	t.Helper()
	for last := everything(t, config); ; {
		time.Sleep(3 * time.Second)
		now := everything(t, config)
		if maps.Equal(last, now) {
			return now
		}
		last = now
	}
}

func configuration(t *testing.T, kubeconfig string) *action.Configuration {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig = &kubeconfig
	c := action.NewConfiguration()
	if err := c.Init(flags, "kube-system", "secret"); err != nil {
		t.Fatal(err)
	}
	return c
}

// Installed with all there is, upgraded to another mode without the agent, and removed: each time the cluster has what render
// prints. Definitions stay, and what users have written with them; once they are deleted, the cluster has what it had before.
func TestCluster(t *testing.T) {
	chart := writeChart(t)
	kubeconfig, config := start(t)
	before := settled(t, config)
	first := values{
		"provider": "onprem", "clusterName": "ber1", "podCIDR": "10.244.0.0/16", "features": values{"routes": true},
		"servingCertificates": values{"enabled": true, "ranges": []any{"198.18.0.0/24"}},
	}
	install := action.NewInstall(configuration(t, kubeconfig))
	install.ReleaseName, install.Namespace, install.WaitStrategy = "ccmadm", "kube-system", kube.HookOnlyStrategy
	if _, err := install.Run(chart, first); err != nil {
		t.Fatal(err)
	}
	withRoutes := []string{
		"--provider=onprem", "--cluster-name=ber1", "--mode=DaemonSet", "--pod-network-cidr=10.244.0.0/16", "--routes",
		"--serving-certificates", "--serving-certificate-ranges=198.18.0.0/24",
	}
	expect(t, config, before, withRoutes)

	kept := maps.Clone(before)
	kept[createPool(t, config)] = true
	for _, name := range cleanUp(t) {
		kept["CustomResourceDefinition /"+name] = true
	}
	upgrade := action.NewUpgrade(configuration(t, kubeconfig))
	upgrade.Namespace, upgrade.WaitStrategy = "kube-system", kube.HookOnlyStrategy
	if _, err := upgrade.Run("ccmadm", chart, values{"provider": "onprem", "clusterName": "ber1", "mode": "Deployment"}); err != nil {
		t.Fatal(err)
	}
	expect(t, config, kept, []string{"--provider=onprem", "--cluster-name=ber1", "--mode=Deployment"})

	rollback := action.NewRollback(configuration(t, kubeconfig))
	rollback.Version, rollback.WaitStrategy = 1, kube.HookOnlyStrategy
	if err := rollback.Run("ccmadm"); err != nil {
		t.Fatal(err)
	}
	expect(t, config, kept, withRoutes)

	uninstall := action.NewUninstall(configuration(t, kubeconfig))
	uninstall.WaitStrategy = kube.HookOnlyStrategy
	if _, err := uninstall.Run("ccmadm"); err != nil {
		t.Fatal(err)
	}
	expect(t, config, kept, nil)
	definitions := dynamic.NewForConfigOrDie(config).Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	for _, name := range cleanUp(t) {
		if err := definitions.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, config, before, nil)
}

// createPool writes what a user would, and names it as everything does.
func createPool(t *testing.T, config *rest.Config) string {
	t.Helper()
	pool := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "ccmadm.dev/v1alpha1", "kind": "AddressPool", "metadata": map[string]any{"name": "lan"},
		"spec": map[string]any{"ranges": []any{"192.0.2.50-192.0.2.99"}},
	}}
	client := dynamic.NewForConfigOrDie(config)
	pools := client.Resource(schema.GroupVersionResource{Group: "ccmadm.dev", Version: "v1alpha1", Resource: "addresspools"})
	if _, err := pools.Create(t.Context(), pool, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return "AddressPool /lan"
}

// cleanUp are the definitions that the page has its readers delete.
func cleanUp(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/tasks/helm-and-kustomize.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(page), "\nkubectl delete crd ")
	names, _, _ := strings.Cut(after, "\n```")
	if !found {
		t.Fatal("the page deletes no definitions")
	}
	return strings.Fields(strings.ReplaceAll(names, "\\\n", " "))
}

// expect waits until the cluster has what it had before, what render prints with the flags, and Helm's own Secrets.
func expect(t *testing.T, config *rest.Config, before map[string]bool, flags []string) {
	t.Helper()
	want := maps.Clone(before)
	if flags != nil {
		printed, err := run(append([]string{"render"}, flags...)...)
		if err != nil {
			t.Fatal(err)
		}
		objects, err := decode(printed)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			meta, _ := o["metadata"].(map[string]any)
			namespace, _ := meta["namespace"].(string)
			want[fmt.Sprintf("%s %s/%s", o["kind"], namespace, meta["name"])] = true
		}
	}
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		got := everything(t, config)
		maps.DeleteFunc(got, func(name string, _ bool) bool {
			return flags != nil && strings.HasPrefix(name, "Secret kube-system/sh.helm.release.")
		})
		diff := cmp.Diff(want, got)
		if diff == "" {
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("after a minute the cluster has (-want +got):\n%s", diff)
		}
	}
}
