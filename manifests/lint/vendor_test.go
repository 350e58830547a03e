package lint_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/manifests"
	"github.com/ccmadm/ccmadm/manifests/lint"
	"github.com/ccmadm/ccmadm/manifests/lint/linttest"
	"github.com/ccmadm/ccmadm/templates"
)

// What is wrong with the manifests of vendors, as errors in workloads by object.
func TestVendors(t *testing.T) {
	want := map[string][]string{
		"aws": {"DaemonSet/kube-system/aws-cloud-controller-manager B2"},
		"azure": {
			"Deployment/kube-system/cloud-controller-manager B4",
			"Deployment/kube-system/cloud-controller-manager B1",
			"Deployment/kube-system/cloud-controller-manager B2",
			"Deployment/kube-system/cloud-controller-manager B3",
		},
		"openstack": {"DaemonSet/kube-system/openstack-cloud-controller-manager B2"},
		"huawei":    {"Deployment/kube-system/huawei-cloud-controller-manager B2"},
	}
	for _, v := range linttest.Vendors() {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			set := readVendor(t, v)
			findings, err := set.Check()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(
				want[v.Name],
				slices.DeleteFunc(errorsOf(findings), func(s string) bool { return !strings.Contains(s, "/kube-system/") }),
			); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if _, left, err := lint.Fix(set.Check); err != nil || len(errorsOf(left)) > 0 {
				t.Errorf("left %v, error %v", errorsOf(left), err)
			}
			for _, f := range set.Files {
				strict(t, f)
			}
		})
	}
}

// What vendors tolerate whose repositories are no Go modules, as their manifests of August 2026 say it.
func TestVendors_Tolerations(t *testing.T) {
	const (
		uninitialized = `{key: node.cloudprovider.kubernetes.io/uninitialized, value: "true", effect: NoSchedule}`
		controlPlane  = `{key: node-role.kubernetes.io/control-plane, effect: NoSchedule}`
		master        = `{key: node-role.kubernetes.io/master, effect: NoSchedule}`
		notReady      = `{key: node.kubernetes.io/not-ready, effect: NoSchedule}`
		notReadyRuns  = `{key: node.kubernetes.io/not-ready, effect: NoExecute}`
		critical      = `{key: CriticalAddonsOnly, operator: Exists}`
	)
	cases := []struct {
		vendor      string
		tolerations []string
		want        []string
	}{
		{"gcp", []string{uninitialized, notReady, master, controlPlane}, nil},
		{"alibaba, v2", []string{"{operator: Exists}"}, nil},
		{"alibaba, example", []string{master, uninitialized}, []string{"B2", "B3"}},
		{"hetzner", []string{uninitialized, critical, master, controlPlane, notReadyRuns}, []string{"B2"}},
		{"digitalocean", []string{uninitialized, critical, master, controlPlane}, []string{"B2"}},
		{"oci", []string{uninitialized, controlPlane, master}, []string{"B2"}},
		{"ibm", []string{uninitialized, master, controlPlane, notReady}, nil},
		{"equinix", []string{uninitialized, controlPlane, master, critical, notReady}, nil},
		{"vultr", []string{critical, "{operator: Exists, effect: NoExecute}", "{operator: Exists, effect: NoSchedule}"}, nil},
		{"linode", []string{controlPlane, critical, uninitialized, notReady}, nil},
		{"scaleway", []string{uninitialized, critical, master}, []string{"B2", "B3"}},
		{"nutanix", []string{master, controlPlane, notReadyRuns, uninitialized, notReady}, nil},
		{"kubevirt", []string{uninitialized, controlPlane}, []string{"B2"}},
		{"proxmox", []string{controlPlane, uninitialized, notReady}, nil},
		{"cloudstack", []string{uninitialized}, []string{"B2", "B3"}},
		{"harvester", []string{uninitialized}, []string{"B2", "B3"}},
		{"xenorchestra", []string{controlPlane, uninitialized}, []string{"B2"}},
		{"outscale", []string{uninitialized, controlPlane}, []string{"B2"}},
		{"stackit", []string{uninitialized}, []string{"B2", "B3"}},
		{"talos", []string{controlPlane, uninitialized, notReady}, nil},
	}
	for _, c := range cases {
		t.Run(c.vendor, func(t *testing.T) {
			set := parse(t, `apiVersion: apps/v1
kind: DaemonSet
metadata: {name: cloud-controller-manager}
spec:
  template:
    spec:
      hostNetwork: true
      tolerations:
      - `+strings.Join(c.tolerations, "\n      - ")+`
      containers: [{name: c, image: "example.com/ccm:v1"}]
`)
			findings, err := set.Check()
			var got []string
			for _, f := range findings {
				if f.Severity == finding.SeverityError {
					got = append(got, string(f.ID))
				}
			}
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("error %v, errors found (-want +got):\n%s", err, diff)
			}
			if _, left, err := lint.Fix(set.Check); err != nil || len(errorsOf(left)) > 0 {
				t.Errorf("left %v, error %v", errorsOf(left), err)
			}
		})
	}
}

func readVendor(t *testing.T, v linttest.Vendor) *lint.Set {
	t.Helper()
	files, err := v.Manifests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	set := &lint.Set{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := lint.Parse(name, files[name])
		if err != nil {
			t.Fatal(err)
		}
		set.Files = append(set.Files, f)
	}
	return set
}

func errorsOf(findings []finding.Finding) []string {
	var list []string
	for _, f := range findings {
		if f.Severity == finding.SeverityError {
			list = append(list, f.Object+" "+string(f.ID))
		}
	}
	return list
}

// strict decodes as `kubectl apply --validate=strict` has the API server do.
func strict(t *testing.T, f *lint.File) {
	t.Helper()
	for doc := range strings.SplitSeq(string(f.Bytes()), "\n---") {
		var meta struct{ Kind string }
		if err := yaml.Unmarshal([]byte(doc), &meta); err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		into, ok := map[string]any{
			"Deployment": &appsv1.Deployment{}, "DaemonSet": &appsv1.DaemonSet{},
			"ClusterRole": &rbacv1.ClusterRole{}, "RoleBinding": &rbacv1.RoleBinding{},
		}[meta.Kind]
		if !ok {
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(doc), into); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
}

// What ccmadm renders must pass its own rules, for every provider in every mode.
func TestOwnManifests(t *testing.T) {
	for _, name := range templates.Names() {
		p, err := templates.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, mode := range p.Modes {
			t.Run(name+" "+string(mode), func(t *testing.T) {
				v := templates.Values{
					Mode: mode, Version: "v1.2.3", ClusterName: "ber1-prod", KubernetesVersion: "v1.36.3", NodeLifecycle: true,
					Endpoint: "https://198.18.0.10:6443", PodSubnet: "10.244.0.0/16", ImageTag: "v1",
				}
				if p.Image.Repository == "" {
					v.Image = "example.com/ccm:v1" // only the user knows
				}
				findings, err := render(t, p, v).Check()
				findings = slices.DeleteFunc(findings, func(f finding.Finding) bool { return p.Ended != "" && f.ID == "B20" })
				if err != nil || len(findings) > 0 {
					t.Errorf("found %v, error %v", messages(findings), err)
				}
			})
		}
	}
}

func render(t *testing.T, p *templates.Profile, v templates.Values) *lint.Set {
	t.Helper()
	rbac, err := manifests.RBAC(p, v)
	if err != nil {
		t.Fatal(err)
	}
	addon, err := manifests.Addon(p, v)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, o := range append(rbac, addon...) {
		data, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString("---\n" + string(data))
	}
	if v.Mode == templates.StaticPod {
		data, err := manifests.StaticPod(p, v)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString("---\n" + string(data))
	}
	return parse(t, b.String())
}

func messages(findings []finding.Finding) []string {
	var list []string
	for _, f := range findings {
		list = append(list, string(f.ID)+" "+f.Object+" "+f.Message)
	}
	return list
}
