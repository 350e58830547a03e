// Package helm tries the chart with Helm's own library: `helm template` equals `ccmadm render` for every provider, bad values are
// refused, and a real API server has it installed, upgraded and removed. It is a module of its own, so that Helm is none of the
// product's.
//
// Start at TestTemplate. Reads: the program of -ccmadm, which writes the chart and renders. Writes: temporary directories.
package helm

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

var ccmadm = flag.String("ccmadm", "../../bin/ccmadm", "the program whose chart is tried")

type values = map[string]any

// object is one that is rendered.
type object = map[string]any

// writeChart has the program write its chart.
func writeChart(t *testing.T) *chart.Chart {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "ccmadm")
	if _, err := run("render", "-o", "helm", "--output-dir", dir); err != nil {
		t.Fatal(err)
	}
	c, err := loader.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func run(args ...string) ([]byte, error) {
	var errs bytes.Buffer
	cmd := exec.Command(*ccmadm, args...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("ccmadm %s: %w\n%s", strings.Join(args, " "), err, &errs)
	}
	return out, nil
}

// profile is what `ccmadm provider list` says of a provider.
type profile struct{ Name string }

func profiles(t *testing.T) (names []string) {
	t.Helper()
	out, err := run("provider", "list", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var list []profile
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		names = append(names, p.Name)
	}
	if len(names) < 30 {
		t.Fatalf("the catalogue has %d providers", len(names))
	}
	return names
}

// template is what `helm template` prints.
func template(c *chart.Chart, kubernetes string, v values) ([]object, error) {
	install := action.NewInstall(action.NewConfiguration())
	install.DryRunStrategy, install.ReleaseName, install.Namespace = action.DryRunClient, "ccmadm", "kube-system"
	version, err := common.ParseKubeVersion(kubernetes)
	if err != nil {
		return nil, err
	}
	install.KubeVersion = version
	done, err := install.Run(c, v)
	if err != nil {
		return nil, err
	}
	r, is := done.(*release.Release)
	if !is {
		return nil, fmt.Errorf("Helm returned %T", done)
	}
	return decode([]byte(r.Manifest))
}

func decode(data []byte) (list []object, err error) {
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		var o object
		switch err := decoder.Decode(&o); {
		case errors.Is(err, io.EOF):
			return list, nil
		case err != nil:
			return nil, err
		}
		if len(o) > 0 {
			list = append(list, o)
		}
	}
}

// byName sorts objects, and leaves out lists without anything.
func byName(list []object) map[string]object {
	named := map[string]object{}
	for _, o := range list {
		meta, _ := o["metadata"].(map[string]any)
		named[fmt.Sprintf("%s %s %v/%v", o["apiVersion"], o["kind"], meta["namespace"], meta["name"])] = o
	}
	return named
}

// option is a value of the chart, and the flags of render that mean the same.
type option struct {
	name  string
	value values
	flags []string
}

// imageOption is the index of the one that has an image.
const imageOption = 7

func options() []option {
	nested := func(key string, v values) values { return values{key: v} }
	return []option{
		{"lifecycle off", nested("features", values{"lifecycle": false}), []string{"--node-lifecycle=false"}},
		{"endpoint", values{"controlPlaneEndpoint": "https://192.0.2.10:6443"}, []string{"--control-plane-endpoint=https://192.0.2.10:6443"}},
		{"pods", values{"podCIDR": "10.244.0.0/16"}, []string{"--pod-network-cidr=10.244.0.0/16"}},
		{"dual-stack pods", values{"podCIDR": "10.244.0.0/16,fd00:1::/64"}, []string{"--pod-network-cidr=10.244.0.0/16,fd00:1::/64"}},
		{"serving", nested("servingCertificates", values{"enabled": true}), []string{"--serving-certificates"}},
		{
			"serving with ranges and names",
			nested("servingCertificates", values{
				"enabled": true, "ranges": []any{"198.18.0.0/24", "fd00::/64"}, "names": []any{"*.example.com"},
			}),
			[]string{"--serving-certificates", "--serving-certificate-ranges=198.18.0.0/24,fd00::/64", "--serving-certificate-names=*.example.com"},
		},
		{
			"arguments, repeated ones, too",
			values{"extraArgs": []any{"--v=4", "--controllers=*", "--leader-elect=false", "--controllers=-x", "--feature-gates=A=true"}},
			[]string{
				"--extra-args=--v=4", "--extra-args=--controllers=*", "--extra-args=--leader-elect=false", "--extra-args=--controllers=-x",
				"--extra-args=--feature-gates=A=true",
			},
		},
		{"image", values{"image": "registry.example/ccm:v1"}, []string{"--image=registry.example/ccm:v1"}},
		{
			"routes",
			values{"podCIDR": "10.244.0.0/16", "features": values{"routes": true}},
			[]string{"--routes", "--pod-network-cidr=10.244.0.0/16"},
		},
		{"node agent", nested("nodeAgent", values{"enabled": true}), []string{"--node-agent"}},
		{"a mode", values{"mode": "Deployment"}, []string{"--mode=Deployment"}},
		{"kubeadm's registry", values{"imageRepository": "registry.k8s.io"}, []string{"--image-repository=registry.k8s.io"}},
		{"a mirror", values{"imageRepository": "registry.example:5000/k8s/"}, []string{"--image-repository=registry.example:5000/k8s/"}},
	}
}

// What Helm renders is what render prints, for each provider: with nothing, with each option, and with all at once.
func TestTemplate(t *testing.T) {
	c := writeChart(t)
	for _, name := range profiles(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compared := 0
			base := option{"", values{"provider": name, "clusterName": "ber1"}, []string{"--provider=" + name, "--cluster-name=ber1"}}
			if _, err := run(append([]string{"render", "--kubernetes-version=v1.36.3"}, base.flags...)...); err != nil {
				base = join(base, options()[imageOption]) // there is none, or none for this version
			}
			all := base
			for _, o := range append([]option{{}}, options()...) {
				with := join(base, o)
				if o.name != "image" { // of all of them, the image of the profile
					all = join(all, o)
				}
				if compare(t, c, with) {
					compared++
				}
			}
			if compare(t, c, all) {
				compared++
			}
			if compared < 8 {
				t.Errorf("only %d combinations were rendered", compared)
			}
		})
	}
}

func join(a, b option) option {
	return option{strings.TrimSpace(a.name + " " + b.name), merge(a.value, b.value), slices.Concat(a.flags, b.flags)}
}

// merge lays the second over the first, as Helm does.
func merge(a, b values) values {
	merged := maps.Clone(a)
	for key, value := range b {
		inner, isMap := value.(values)
		under, wasMap := merged[key].(values)
		if isMap && wasMap {
			value = merge(under, inner)
		}
		merged[key] = value
	}
	return merged
}

// compare reports whether both rendered something; they have to agree on that, too.
func compare(t *testing.T, c *chart.Chart, o option) bool {
	t.Helper()
	const kubernetes = "v1.36.3"
	flags := o.flags
	if _, chosen := o.value["mode"]; !chosen {
		flags = append(slices.Clone(flags), "--mode="+defaultMode(c, fmt.Sprint(o.value["provider"])))
	}
	printed, refused := run(append([]string{"render", "--kubernetes-version=" + kubernetes}, flags...)...)
	got, err := template(c, kubernetes, o.value)
	if refused != nil || err != nil {
		if refused == nil || err == nil {
			t.Errorf("%s: render says %v, and Helm %v", o.name, refused, err)
		}
		return false
	}
	want, err := decode(printed)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(byName(want), byName(withoutPolicy(t, got))); diff != "" {
		t.Errorf("%s: render (-) and Helm (+) differ:\n%s", o.name, diff)
	}
	return true
}

// withoutPolicy removes the one thing that the chart has and render does not: Helm keeps definitions, and so what users wrote with them,
// when a release no longer has them.
func withoutPolicy(t *testing.T, list []object) []object {
	t.Helper()
	const policy = "helm.sh/resource-policy"
	for _, o := range list {
		if o["kind"] != "CustomResourceDefinition" {
			continue
		}
		meta, _ := o["metadata"].(map[string]any)
		annotations, _ := meta["annotations"].(map[string]any)
		if annotations[policy] != "keep" {
			t.Errorf("CustomResourceDefinition/%s: Helm deletes it with the release, and all objects of its kind", meta["name"])
		}
		delete(annotations, policy)
	}
	return list
}

// defaultMode is that of the chart: of static pods, which render may begin with, it has none.
func defaultMode(c *chart.Chart, provider string) string {
	for _, f := range c.Templates {
		if f.Name == "templates/"+provider+".yaml" {
			_, after, _ := strings.Cut(string(f.Data), `$mode := default "`)
			mode, _, _ := strings.Cut(after, `"`)
			return mode
		}
	}
	return ""
}

// Monitoring of the chart is that of render, with the labels of the values.
func TestTemplate_Monitoring(t *testing.T) {
	c := writeChart(t)
	printed, err := run("render", "--provider=onprem", "--cluster-name=ber1", "--mode=DaemonSet", "--monitoring",
		"--monitoring-labels=release=kps")
	if err != nil {
		t.Fatal(err)
	}
	want, err := decode(printed)
	if err != nil {
		t.Fatal(err)
	}
	got, err := template(c, "v1.37.0", values{
		"provider": "onprem", "clusterName": "ber1", "monitoring": values{"enabled": true, "labels": values{"release": "kps"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(byName(want), byName(got)); diff != "" {
		t.Errorf("render (-) and Helm (+) differ:\n%s", diff)
	}
}

// A provider that starts without a configuration file is given the one of the Secret. That, and the hash of its content, are render's alone.
func TestTemplate_CloudConfig(t *testing.T) {
	c := writeChart(t)
	for name, content := range map[string]string{
		"onprem": "apiVersion: ccmadm.dev/v1alpha1\nkind: OnPremConfiguration\n", "aws": "[Global]\nKubernetesClusterID = ber1\n",
	} {
		file := filepath.Join(t.TempDir(), "cloud.conf")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		printed, err := run("render", "--provider="+name, "--cluster-name=ber1", "--mode=DaemonSet", "--kubernetes-version=v1.36.3",
			"--cloud-config="+file)
		if err != nil {
			t.Fatal(err)
		}
		want, err := decode(printed)
		if err != nil {
			t.Fatal(err)
		}
		want = slices.DeleteFunc(want, func(o object) bool { return o["kind"] == "Secret" })
		for _, o := range want {
			if o["kind"] == "DaemonSet" {
				spec, _ := o["spec"].(map[string]any)["template"].(map[string]any)["metadata"].(map[string]any)
				delete(spec, "annotations")
			}
		}
		value := values{"provider": name, "clusterName": "ber1", "cloudConfig": values{"enabled": true}}
		got, err := template(c, "v1.36.3", value)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(byName(want), byName(got)); diff != "" {
			t.Errorf("%s: render (-) and Helm (+) differ:\n%s", name, diff)
		}
		value["cloudConfig"] = values{"enabled": false}
		if off, err := template(c, "v1.36.3", value); err != nil || cmp.Equal(byName(off), byName(got)) {
			t.Errorf("%s: with and without a configuration file, Helm renders the same, or: %v", name, err)
		}
	}
}

// Variables come from Secrets alone, and take the place of the provider's.
func TestTemplate_ExtraEnv(t *testing.T) {
	got, err := template(writeChart(t), "v1.36.0", values{
		"provider": "hetzner", "clusterName": "ber1",
		"extraEnv": []any{values{"name": "HCLOUD_TOKEN", "secret": "hcloud", "key": "token"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(byName(got)["apps/v1 DaemonSet kube-system/hetzner-cloud-controller-manager"])
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"name":"HCLOUD_TOKEN","valueFrom":{"secretKeyRef":{"key":"token","name":"hcloud"}}}`
	if n := strings.Count(string(text), `"HCLOUD_TOKEN"`); n != 1 || !strings.Contains(string(text), want) {
		t.Errorf("the variable is there %d times, want once as %s:\n%s", n, want, text)
	}
}

// A version of Kubernetes for which the vendor has no release is an error that says what to set.
func TestTemplate_NoImage(t *testing.T) {
	_, err := template(writeChart(t), "v1.37.0", values{"provider": "azure", "clusterName": "ber1"})
	if err == nil || !strings.Contains(err.Error(), "provider azure: no image for Kubernetes 1.37 is known: set image") {
		t.Errorf("got error %v", err)
	}
}

func TestMain(m *testing.M) {
	flag.Parse()
	if _, err := os.Stat(*ccmadm); err != nil {
		fmt.Fprintf(os.Stderr, "%v: make build makes it\n", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
