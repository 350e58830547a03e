package manifests

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func values(mode templates.Mode) templates.Values {
	return templates.Values{
		Mode: mode, Version: "v1.2.3", ClusterName: "ber1-prod", KubernetesVersion: "v1.36.3", NodeLifecycle: true,
		Endpoint: "https://198.18.0.10:6443", PodSubnet: "10.244.0.0/16",
	}
}

func onprem(t *testing.T) *templates.Profile {
	t.Helper()
	p, err := templates.Load("onprem")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// foreign is a provider that uses everything onprem does not.
func foreign(t *testing.T) *templates.Profile {
	t.Helper()
	file := filepath.Join("testdata", "foreign-profile.yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := templates.Parse(file, data)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRender(t *testing.T) {
	full := func(mode templates.Mode) templates.Values {
		v := values(mode)
		v.Files, v.Routes, v.NodeLifecycle = []string{"cloud.conf", "token"}, true, false
		v.Proxies = []string{"HTTPS_PROXY=http://proxy.example:3128"}
		v.ConfigHash = ConfigHash(map[string][]byte{"cloud.conf": []byte("x")})
		v.ExtraArgs = []string{"--v=4", "--leader-elect=false"}
		return v
	}
	secret := map[string][]byte{"cloud.conf": []byte("[Global]\nurl = https://cloud.example\n"), "token": []byte("t0ken")}
	tests := []struct {
		name   string
		render func() ([]*Object, error)
	}{
		{
			name:   "static pod",
			render: func() ([]*Object, error) { return parseOne(StaticPod(onprem(t), values(templates.StaticPod))) },
		},
		{
			name:   "static pod of another provider",
			render: func() ([]*Object, error) { return parseOne(StaticPod(foreign(t), full(templates.StaticPod))) },
		},
		{
			name:   "daemonset",
			render: func() ([]*Object, error) { return Addon(onprem(t), values(templates.DaemonSet)) },
		},
		{
			name:   "agents of a static pod of another provider",
			render: func() ([]*Object, error) { return Addon(foreign(t), values(templates.StaticPod)) },
		},
		{
			name:   "deployment of another provider",
			render: func() ([]*Object, error) { return Addon(foreign(t), full(templates.Deployment)) },
		},
		{
			name:   "rbac of a static pod",
			render: func() ([]*Object, error) { return RBAC(onprem(t), values(templates.StaticPod)) },
		},
		{
			name:   "rbac of a daemonset of another provider",
			render: func() ([]*Object, error) { return RBAC(foreign(t), values(templates.DaemonSet)) },
		},
		{
			name: "node agent",
			render: func() ([]*Object, error) {
				v := values(templates.StaticPod)
				v.NodeAgent = true
				list, err := NodeAgent(onprem(t), v)
				return slices.DeleteFunc(list, isCRD), err
			},
		},
		{
			name: "static pod of the control plane's address",
			render: func() ([]*Object, error) {
				return parseOne(VIPPod(onprem(t), values(templates.StaticPod), VIP{
					NodeName: "cp1", NodeAddress: netip.MustParseAddr("192.0.2.11"), Address: netip.MustParseAddr("192.0.2.10"),
					Interface: "eth0", Port: 6443, MembersFile: "/etc/ccmadm/vip/members.json", CertificatesDir: "/etc/kubernetes/pki",
					Kubeconfig: "/etc/kubernetes/scheduler.conf",
				}))
			},
		},
		{
			name:   "key of heartbeats",
			render: func() ([]*Object, error) { return one(HeartbeatSecret([]byte(strings.Repeat("k", 32)))) },
		},
		{
			name:   "cloud config",
			render: func() ([]*Object, error) { return CloudConfigSecret(foreign(t), secret) },
		},
		{
			name:   "record",
			render: func() ([]*Object, error) { return Record([]byte("provider: onprem\n"), v1alpha1.LeaseName) },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			list, err := tt.render()
			if err != nil {
				t.Fatal(err)
			}
			golden(t, list)
		})
	}
}

func isCRD(o *Object) bool { return o.GetKind() == "CustomResourceDefinition" }

func one(o *Object, err error) ([]*Object, error) { return []*Object{o}, err }

func parseOne(data []byte, err error) ([]*Object, error) {
	o := &Object{}
	if err == nil {
		err = yaml.Unmarshal(data, &o.Object)
	}
	return []*Object{o}, err
}

func golden(t *testing.T, list []*Object) {
	t.Helper()
	var docs []string
	for _, o := range list {
		data, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, string(data))
	}
	got := strings.Join(docs, "---\n")
	file := filepath.Join("testdata", strings.ReplaceAll(t.Name(), "/", "_")+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func TestRender_Refused(t *testing.T) {
	tests := []struct {
		name    string
		without templates.Feature
		change  func(*templates.Values)
		wantErr string
	}{
		{
			name:    "no cluster name",
			change:  func(v *templates.Values) { v.ClusterName = "" },
			wantErr: "cluster name is empty",
		},
		{
			name:    "routes that the provider has not",
			without: templates.Routes,
			change:  func(v *templates.Values) { v.Routes = true },
			wantErr: "provider onprem has no routes",
		},
		{
			name:    "routes without a subnet",
			change:  func(v *templates.Values) { v.Routes, v.PodSubnet = true, "" },
			wantErr: "routes need a pod subnet",
		},
		{
			name:    "an endpoint without host",
			change:  func(v *templates.Values) { v.Endpoint = "198.18.0.10:6443" },
			wantErr: `endpoint "198.18.0.10:6443": want https://host:port`,
		},
		{
			name:    "an argument without value",
			change:  func(v *templates.Values) { v.ExtraArgs = []string{"--v", "4"} },
			wantErr: `argument "--v": must have the form --flag=value`,
		},
		{
			name:    "a mode that is none",
			change:  func(v *templates.Values) { v.Mode = "Manual" },
			wantErr: `mode "Manual" is not among`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := values(templates.DaemonSet)
			tt.change(&v)
			profile := onprem(t)
			profile.Features = slices.DeleteFunc(profile.Features, func(f templates.Feature) bool { return f == tt.without })
			_, err := Addon(profile, v)
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("got error %v, want %q", err, tt.wantErr)
			}
		})
	}
}

// A flag that adds to what it had counts each time that the user gives it. What ccmadm and the profile give it has to go.
func TestStaticPod_RepeatedArgs(t *testing.T) {
	v := values(templates.StaticPod)
	v.NodeLifecycle = false
	v.ExtraArgs = []string{"--feature-gates=A=true", "--controllers=*", "--feature-gates=B=true", "--controllers=-cloud-node-controller"}
	data, err := StaticPod(onprem(t), v)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for word := range strings.FieldsSeq(string(data)) {
		if strings.HasPrefix(word, "--feature-gates=") || strings.HasPrefix(word, "--controllers=") {
			got = append(got, word)
		}
	}
	slices.Sort(got)
	want := []string{"--controllers=*", "--controllers=-cloud-node-controller", "--feature-gates=A=true", "--feature-gates=B=true"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("args (-want +got):\n%s", diff)
	}
}

// Kubelets from 1.34 on refuse static pods that refer to objects of the API (kubernetes/kubernetes#131837).
func TestStaticPod_NoReferences(t *testing.T) {
	v := values(templates.StaticPod)
	v.Files, v.ConfigHash = []string{"cloud.conf", "token"}, "abc"
	data, err := StaticPod(foreign(t), v)
	if err != nil {
		t.Fatal(err)
	}
	references := []string{
		"serviceAccount", "secret", "configMap", "valueFrom", "envFrom", "resourceClaims", "persistentVolumeClaim",
	}
	for _, word := range references {
		if strings.Contains(string(data), word) {
			t.Errorf("static pod mentions %q", word)
		}
	}
}
