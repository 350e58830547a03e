package manager

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/templates"
)

func TestAddInventory(t *testing.T) {
	profile, err := templates.Load("onprem")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "machines.yaml")
	if err := os.WriteFile(path, []byte("the machines"), 0o644); err != nil {
		t.Fatal(err)
	}
	const pointer = "inventory:\n  configMap: ccmadm-machines\n"
	for _, tc := range []struct {
		name    string
		config  string // "" is none
		profile *templates.Profile
		path    string
		more    map[string]string
		want    string
		wantErr string
	}{
		{name: "no configuration", want: phasestest.OnpremHead + pointer},
		{name: "plain settings, and a comment", config: phasestest.OnpremHead + "site: ber1 # Berlin\n", want: phasestest.OnpremHead + "site: ber1 # Berlin\n" + pointer},
		{
			name: "settings of the inventory", config: phasestest.OnpremHead + "inventory: {interval: 1s}\n",
			want: phasestest.OnpremHead + "inventory: {interval: 1s, configMap: ccmadm-machines}\n",
		},
		{name: "the same", config: phasestest.OnpremHead + pointer, want: phasestest.OnpremHead + pointer},
		{
			name: "another ConfigMap", config: phasestest.OnpremHead + "inventory: {configMap: x}\n",
			wantErr: `point cloud.conf at it: inventory.configMap is "x" there`,
		},
		{name: "another syntax", config: "[Global]\nsite = ber1\n", wantErr: "point cloud.conf at it"},
		{
			name: "given as a credential, too", more: map[string]string{"inventory.yaml": "x"},
			wantErr: "has a key inventory.yaml already",
		},
		{
			name: "another provider", profile: &templates.Profile{Name: "cumulus"},
			wantErr: "provider cumulus serves no list of machines",
		},
		{name: "no such file", path: "/nothing.yaml", wantErr: "read inventory: open /nothing.yaml"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			files := map[string][]byte{}
			if tc.config != "" {
				files["cloud.conf"] = []byte(tc.config)
			}
			for name, content := range tc.more {
				files[name] = []byte(content)
			}
			if tc.profile == nil {
				tc.profile = profile
			}
			if tc.path == "" {
				tc.path = path
			}
			all, err := addInventory(files, tc.profile, tc.path)
			phasestest.WantError(t, err, tc.wantErr, finding.ExitUsage)
			if err != nil {
				return
			}
			if diff := cmp.Diff(tc.want, string(files["cloud.conf"])); diff != "" {
				t.Errorf("cloud.conf (-want +got):\n%s", diff)
			}
			if got := string(all["inventory.yaml"]); got != "the machines" {
				t.Errorf("inventory.yaml is %q", got)
			}
			if _, there := files["inventory.yaml"]; there {
				t.Error("each control plane would have a copy of the list")
			}
		})
	}
}
