package manager

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

func TestSettings_TheImageFollowsTheClustersVersion(t *testing.T) {
	m, _ := machinetest.New(t) // with kubeadm 1.36.3
	text := phasestest.InitConfig + "---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.35.4\nclusterName: ber1\n"
	r, _ := phasestest.Run{Config: text, Inputs: workflow.Inputs{Request: workflow.Request{Flags: config.CloudConfiguration{Provider: "aws"}}}}.Must(t, m)
	s, err := r.Settings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := image(r.Host, s)
	if err != nil || !strings.Contains(got, ":v1.35.") {
		t.Errorf("image %q, %v, want a release of 1.35", got, err)
	}
}

// TestCheckCloudConfig_UnusedVariable: a credential in the environment of an existing cluster changes nothing, and the run says so.
func TestCheckCloudConfig_UnusedVariable(t *testing.T) {
	for name, tt := range map[string]struct {
		env, stored string
		named       []config.Credential
		warns       bool
	}{
		"another value":           {env: "new", stored: "old", warns: true},
		"the stored value":        {env: "old", stored: "old\n"},
		"no variable":             {stored: "old"},
		"named, of another place": {env: "new", stored: "old", named: []config.Credential{{Key: "token", Env: "OTHER"}}},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := machinetest.New(t)
			flags := config.CloudConfiguration{Provider: "hetzner", Credentials: tt.named}
			r, out := phasestest.Run{Config: phasestest.InitConfig, Inputs: workflow.Inputs{Request: workflow.Request{Flags: flags}}}.Must(t, m)
			r.Getenv = func(name string) string { return map[string]string{"HCLOUD_TOKEN": tt.env}[name] }
			stored := map[string][]byte{"token": []byte(tt.stored)}
			if _, err := r.Cache.Files.Get(func() (map[string][]byte, error) { return stored, nil }); err != nil {
				t.Fatal(err)
			}
			if err := CheckCloudConfig(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			const want = "warning, environment variable HCLOUD_TOKEN has no effect on an existing cluster"
			if got := out.String(); strings.Contains(got, want) != tt.warns || strings.Contains(got, "new") {
				t.Errorf("want a warning: %v, and no value:\n%s", tt.warns, got)
			}
		})
	}
}

// TestCloudFiles_Named: what the configuration names has to be given with it, unless a static pod finds it on this machine, or the
// user deploys the manager.
func TestCloudFiles_Named(t *testing.T) {
	const lies = machine.CloudConfigDir + "/clouds.yaml"
	conf := filepath.Join(t.TempDir(), "cloud.conf")
	if err := os.WriteFile(conf, []byte("[Global]\nuse-clouds = true\nclouds-file = "+lies+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		mode        config.Mode
		lies, wrote bool
		wantErr     string
	}{
		"it is nowhere":                    {mode: config.ModeStaticPod, wantErr: "provider openstack needs credential clouds.yaml: "},
		"it is there for a static pod":     {mode: config.ModeStaticPod, lies: true},
		"ccmadm wrote it, and removes it":  {mode: config.ModeStaticPod, lies: true, wrote: true, wantErr: "needs credential clouds.yaml: "},
		"a pod of a DaemonSet has no such": {mode: config.ModeDaemonSet, lies: true, wantErr: "needs credential clouds.yaml: "},
		"the manager is the user's own":    {mode: config.ModeManual},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := machinetest.New(t)
			if tt.lies {
				machinetest.Put(t, m, lies, "clouds: {}")
			}
			if tt.wrote {
				machinetest.Put(t, m, machine.StateFile, "apiVersion: ccmadm.dev/v1alpha1\nkind: LocalState\nfiles: ["+lies+"]\n")
			}
			flags := config.CloudConfiguration{Provider: "openstack", Mode: tt.mode, CloudConfig: config.CloudConfigFile{File: conf}}
			r, _ := phasestest.Run{Config: phasestest.InitConfig, Inputs: workflow.Inputs{Request: workflow.Request{Flags: flags}}}.Must(t, m)
			s, err := r.Settings(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, err = CloudFiles(t.Context(), r, s)
			phasestest.WantError(t, err, tt.wantErr, finding.ExitUsage)
		})
	}
}

func TestWriteCloudFiles_RemovesWhatIsWantedNoMore(t *testing.T) {
	m, _ := machinetest.New(t)
	write := func(files map[string][]byte) {
		t.Helper()
		r, out := phasestest.Run{Config: phasestest.InitConfig}.Must(t, m)
		if err := writeCloudFiles(r.Env, files); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	machinetest.Put(t, m, machine.CloudConfigDir+"/theirs", "the administrator's")
	write(map[string][]byte{"cloud.conf": []byte("a"), "token": []byte("b")})
	write(map[string][]byte{"cloud.conf": []byte("a")})
	got := slices.DeleteFunc(slices.Sorted(maps.Keys(phasestest.Snapshot(t, m))), func(path string) bool { return strings.HasPrefix(path, machine.ConfigDir) })
	if diff := cmp.Diff([]string{machine.CloudConfigDir + "/cloud.conf", machine.CloudConfigDir + "/theirs"}, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}
