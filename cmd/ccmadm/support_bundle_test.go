package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ccmadm/ccmadm/phases/workflow"
)

// planted is what must not come out, in whatever form; the others have the form of a credential.
const (
	planted    = "hunter2hunter2"
	plantedJWT = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJob3N0aWxlIn0.c2lnbmF0dXJlLWh1bnRlcg"
	plantedPEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAplantedplantedplantedplantedplantedplantedplant\nedEND==\n-----END RSA PRIVATE KEY-----\n"
)

// plants are lines as programs log them.
const plants = "E1122 login with password=" + planted + " refused\nGET https://admin:" + planted + "@cloud.example.org/v1\n" +
	"Authorization: Bearer " + planted + "\n--password " + planted + "\n" + plantedJWT + "\n" + plantedPEM + "kept words\n"

// TestClusterSupportBundle plants credentials wherever the bundle looks, and searches the archive for them.
func TestClusterSupportBundle(t *testing.T) {
	client, err := kubernetes.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	plantCluster(t, client)
	root := t.TempDir()
	for path, text := range plantedFiles() {
		write(t, filepath.Join(root, path), text)
	}
	files, said, status := supportBundle(t, root, "admin", "system:masters")
	if status != 0 {
		t.Fatalf("exit status %d: %s", status, said)
	}
	for name, text := range files {
		for _, word := range []string{
			planted, base64.StdEncoding.EncodeToString([]byte(planted)), "plantedplanted", "edEND==", plantedJWT[:20], "8675309", "abcdef.0123456789abcdef",
		} {
			if strings.Contains(text, word) {
				t.Errorf("%s has %s:\n%s", name, word, text)
			}
		}
	}
	for name, word := range map[string]string{
		"cluster/configmaps/kubeadm-config.yaml":          "controlPlaneEndpoint: kept.example.org",
		"cluster/configmaps/ccmadm-config.yaml":           "record.yaml",
		"cluster/events-kube-system.txt":                  "BundleTest Pod/bundle-test x1: E1122 login with password=(redacted) refused",
		"cluster/deployments/kube-system/bundle-ccm.yaml": "--cloud-provider=aws",
		"cluster/load-balancers/services.yaml":            "name: bundle-test",
		"snapshot.json":                                   "bundle-ccm",
		"diagnosis.txt":                                   "bundle-ccm",
		"machine/etc/kubernetes/manifests/manager.yaml":   "kept-image",
		"machine/etc/kubernetes/cloud-config/cloud.conf":  "kept-setting",
		"machine/var/lib/kubelet/kubeadm-flags.env":       "--cloud-provider=external",
		"not-seen.txt":                                    "kubelet-command-line.txt",
	} {
		if text, there := files[name]; !there || !strings.Contains(text, word) {
			t.Errorf("%s does not have %q:\n%s", name, word, text)
		}
	}
}

// What somebody with few permissions gets is an archive that says what is not in it.
func TestClusterSupportBundle_Viewer(t *testing.T) {
	files, said, status := supportBundle(t, t.TempDir(), "bundle-viewer")
	if status != 0 || !strings.Contains(said, "not seen: nodes: ") {
		t.Errorf("exit status %d: %s", status, said)
	}
	for _, what := range []string{"nodes: ", "configmap kubeadm-config: ", "all events in kube-system: ", "pods of the node agent: ", "load balancers: "} {
		if !strings.Contains(files["not-seen.txt"], what) {
			t.Errorf("%q is not said to be missing:\n%s", what, files["not-seen.txt"])
		}
	}
	if !strings.Contains(files["diagnosis.txt"], "nothing is wrong in what was seen") {
		t.Errorf("got diagnosis %s", files["diagnosis.txt"])
	}
}

func plantCluster(t *testing.T, c kubernetes.Interface) {
	t.Helper()
	kube := c.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	for name, data := range map[string]map[string]string{
		"kubeadm-config": {"ClusterConfiguration": "kind: ClusterConfiguration\ncontrolPlaneEndpoint: kept.example.org\napiServer:\n  extraArgs:\n" +
			"  - {name: oidc-client-secret, value: " + planted + "}\n  extraEnvs: [{name: A, value: " + planted + "}]\n"},
		"ccmadm-config": {"record.yaml": "kind: Record\nprofile: |\n  args: [--password=" + planted + "]\n", "cloud.conf": "[Global]\nuser=" + planted + "\n"},
	} {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
		_, err := kube.Create(t.Context(), cm, metav1.CreateOptions{})
		check(t, err)
		t.Cleanup(func() { check(t, kube.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})) })
	}
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "bundle-test.1"}, Reason: "BundleTest", Type: corev1.EventTypeWarning, Message: plants,
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: metav1.NamespaceSystem, Name: "bundle-test"}, Count: 1,
	}
	_, err := c.CoreV1().Events(metav1.NamespaceSystem).Create(t.Context(), event, metav1.CreateOptions{})
	check(t, err)
	_, err = c.CoreV1().Secrets(metav1.NamespaceSystem).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bundle-test"}, StringData: map[string]string{"password": planted},
	}, metav1.CreateOptions{})
	check(t, err)
	labels := map[string]string{"app": "bundle-ccm"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "bundle-ccm", Annotations: map[string]string{
		corev1.LastAppliedConfigAnnotation: planted, "example.org/note": planted,
	}}}
	d.Spec.Selector, d.Spec.Template.Labels = &metav1.LabelSelector{MatchLabels: labels}, labels
	d.Spec.Template.Annotations = map[string]string{"example.org/token": planted}
	d.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "x", Args: []string{planted}}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "ccm", Image: "registry.k8s.io/provider-aws/cloud-controller-manager:v1.36.0",
		Args: []string{"--cloud-provider=aws", "--api-token=" + planted, "--password", planted},
		Env:  []corev1.EnvVar{{Name: "AWS_SECRET_ACCESS_KEY", Value: planted}, {Name: "PLAIN", Value: planted}},
	}}
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "bundle-test", Annotations: map[string]string{"example.org/token": planted}}}
	svc.Spec.Type, svc.Spec.Ports = corev1.ServiceTypeLoadBalancer, []corev1.ServicePort{{Port: 80}}
	_, err = c.CoreV1().Services(metav1.NamespaceSystem).Create(t.Context(), svc, metav1.CreateOptions{})
	check(t, err)
	t.Cleanup(func() {
		check(t, c.CoreV1().Services(metav1.NamespaceSystem).Delete(context.WithoutCancel(t.Context()), svc.Name, metav1.DeleteOptions{}))
	})
	apps := c.AppsV1().Deployments(metav1.NamespaceSystem)
	_, err = apps.Create(t.Context(), d, metav1.CreateOptions{})
	check(t, err)
	t.Cleanup(func() { check(t, apps.Delete(context.WithoutCancel(t.Context()), d.Name, metav1.DeleteOptions{})) })
}

func plantedFiles() map[string]string {
	return map[string]string{
		"etc/kubernetes/manifests/manager.yaml": "kind: Pod\nspec:\n  containers:\n  - image: kept-image\n    args: [--password, " + planted + "]\n" +
			"    env: [{name: A, value: " + planted + "}]\n# " + planted + "\n",
		"etc/kubernetes/manifests/broken.yaml":         "kind: Pod\n\tpassword: " + planted + "\n",
		"etc/kubernetes/cloud-config/cloud.conf":       "[Global]\nkept-setting = " + planted + "\nx = 8675309\n",
		"etc/kubernetes/cloud-config/..data/more.json": `{"a": "` + planted + `"}`,
		"etc/kubernetes/cloud-controller-manager.conf": "users: [{user: {token: " + planted + "}}]",
		"etc/kubernetes/pki/ca.key":                    plantedPEM,
		"etc/ccmadm/kubeadm.yaml": "kind: JoinConfiguration\ndiscovery: {bootstrapToken: {token: abcdef.0123456789abcdef}}\n---\n" +
			"kind: InitConfiguration\ncertificateKey: " + planted + "\n",
		"etc/ccmadm/record.yaml":                           "kind: Record\nprofile: |\n  token: " + planted + "\n",
		"var/lib/kubelet/kubeadm-flags.env":                "KUBELET_KUBEADM_ARGS=\"--cloud-provider=external --token=" + planted + "\"\n",
		"etc/systemd/system/kubelet.service.d/proxy.conf":  "[Service]\nEnvironment=HTTPS_PROXY=http://u:" + planted + "@proxy:3128\n",
		"etc/containerd/config.toml":                       "[registry.auth]\n  password = \"" + planted + "\"\n  auth = \"" + planted + "\"\n",
		"etc/default/kubelet":                              "KUBELET_EXTRA_ARGS=--bootstrap-token " + planted + "\n",
		"etc/kubernetes/manifests/kube-apiserver.yaml.bak": plants,
	}
}

// supportBundle runs the command as a user, and reads what it has written.
func supportBundle(t *testing.T, root, user string, groups ...string) (files map[string]string, said string, status int) {
	t.Helper()
	config, err := cluster.Kubeconfig(user, groups...)
	check(t, err)
	kubeconfig, name := filepath.Join(root, "kubeconfig"), filepath.Join(root, "bundle.tar.gz")
	write(t, kubeconfig, string(config))
	var out bytes.Buffer
	streams := workflow.Streams{In: strings.NewReader(""), Out: &out, Err: &out, Getenv: func(string) string { return "" }}
	status = run(t.Context(), streams, []string{"ccmadm", "support-bundle", "--kubeconfig", kubeconfig, "--root", root, "-o", name})
	file, err := os.Open(name)
	check(t, err)
	defer file.Close() //nolint:errcheck // it was only read
	zip, err := gzip.NewReader(file)
	check(t, err)
	files = map[string]string{}
	for archive := tar.NewReader(zip); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, out.String(), status
		}
		check(t, err)
		data, err := io.ReadAll(archive)
		check(t, err)
		short := strings.TrimPrefix(header.Name, "ccmadm-support/")
		if slices.Contains(strings.Split(short, "/"), "..") {
			t.Errorf("file %s", header.Name)
		}
		files[short] = string(data)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	check(t, os.MkdirAll(filepath.Dir(name), 0o755))
	check(t, os.WriteFile(name, []byte(text), 0o600))
}
