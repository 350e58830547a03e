package phases

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/settings"
	"github.com/ccmadm/ccmadm/phases/workflow"
	"github.com/ccmadm/ccmadm/templates"
)

func TestSettle(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "own.yaml")
	source, err := templates.Source("hetzner")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(own, []byte(strings.Replace(string(source), "name: hetzner", "name: mine", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty.yaml")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name     string
		given    v1alpha1.CloudConfiguration
		provider string
		mode     v1alpha1.Mode
		wantErr  string
	}{
		{name: "nothing", provider: "onprem", mode: v1alpha1.ModeStaticPod},
		{name: "a provider whose secrets a static pod would show", given: v1alpha1.CloudConfiguration{Provider: "hetzner"}, provider: "hetzner", mode: v1alpha1.ModeDaemonSet},
		{name: "a mode stands", given: v1alpha1.CloudConfiguration{Provider: "hetzner", Mode: v1alpha1.ModeDeployment}, provider: "hetzner", mode: v1alpha1.ModeDeployment},
		{name: "a file names its provider", given: v1alpha1.CloudConfiguration{Profile: own}, provider: "mine", mode: v1alpha1.ModeDaemonSet},
		{name: "a file and its provider", given: v1alpha1.CloudConfiguration{Profile: own, Provider: "mine"}, provider: "mine", mode: v1alpha1.ModeDaemonSet},
		{
			name: "a file and another provider", given: v1alpha1.CloudConfiguration{Profile: own, Provider: "aws"},
			wantErr: `provider "aws": the profile ` + own + ` is that of "mine"`,
		},
		{
			name: "no file", given: v1alpha1.CloudConfiguration{Profile: filepath.Join(dir, "x.yaml")},
			wantErr: "read profile: open",
		},
		{name: "an empty file", given: v1alpha1.CloudConfiguration{Profile: empty}, wantErr: "it is empty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := machinetest.New(t)
			r, _ := phasestest.Run{Inputs: workflow.Inputs{Flags: tt.given}}.Must(t, m)
			got, err := r.Settings(t.Context())
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("got error %v, want %q", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Provider != tt.provider || got.Mode != tt.mode {
				t.Errorf("got %s, %s, want %s, %s", got.Provider, got.Mode, tt.provider, tt.mode)
			}
		})
	}
}

func TestCompatible(t *testing.T) {
	tests := []struct {
		name     string
		settings v1alpha1.CloudConfiguration
		wantErr  string
	}{
		{"nothing special", v1alpha1.CloudConfiguration{Provider: "aws", Mode: v1alpha1.ModeStaticPod}, ""},
		{"a companion alone", v1alpha1.CloudConfiguration{Provider: "kubevip", Mode: v1alpha1.ModeDeployment}, "provider kubevip serves Services only: nothing of it takes the uninitialized taint away"},
		{"nobody's name", v1alpha1.CloudConfiguration{Provider: "generic", Mode: v1alpha1.ModeDaemonSet}, "provider generic needs --cloud-provider=VALUE"},
		{"a name", v1alpha1.CloudConfiguration{Provider: "generic", Mode: v1alpha1.ModeDaemonSet, ControllerManager: v1alpha1.ControllerManager{ExtraArgs: []string{"--cloud-provider=acme"}}}, ""},
		{"routes of a provider without", v1alpha1.CloudConfiguration{Provider: "digitalocean", Mode: v1alpha1.ModeDaemonSet, Routes: new(true)}, "routes: provider digitalocean programs no routes"},
		{"a mode that would show a secret", v1alpha1.CloudConfiguration{Provider: "hetzner", Mode: v1alpha1.ModeStaticPod}, "mode: provider hetzner runs as DaemonSet or Deployment, not as StaticPod"},
		{"the user's own manager", v1alpha1.CloudConfiguration{Provider: "generic", Mode: v1alpha1.ModeManual}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := templates.Load(tt.settings.Provider)
			if err != nil {
				t.Fatal(err)
			}
			err = settings.Compatible(&tt.settings, p)
			if (err != nil) != (tt.wantErr != "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("got error %v, want %q", err, tt.wantErr)
			}
		})
	}
}
