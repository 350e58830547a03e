package phases

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/config"
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
		given    config.CloudConfiguration
		provider string
		mode     config.Mode
		wantErr  string
	}{
		{name: "nothing", provider: "onprem", mode: config.ModeStaticPod},
		{name: "a provider whose secrets a static pod would show", given: config.CloudConfiguration{Provider: "hetzner"}, provider: "hetzner", mode: config.ModeDaemonSet},
		{name: "a mode stands", given: config.CloudConfiguration{Provider: "hetzner", Mode: config.ModeDeployment}, provider: "hetzner", mode: config.ModeDeployment},
		{name: "a file names its provider", given: config.CloudConfiguration{Profile: own}, provider: "mine", mode: config.ModeDaemonSet},
		{name: "a file and its provider", given: config.CloudConfiguration{Profile: own, Provider: "mine"}, provider: "mine", mode: config.ModeDaemonSet},
		{
			name: "a file and another provider", given: config.CloudConfiguration{Profile: own, Provider: "aws"},
			wantErr: `provider "aws": the profile ` + own + ` is that of "mine"`,
		},
		{
			name: "no file", given: config.CloudConfiguration{Profile: filepath.Join(dir, "x.yaml")},
			wantErr: "read profile: open",
		},
		{name: "an empty file", given: config.CloudConfiguration{Profile: empty}, wantErr: "it is empty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := machinetest.New(t)
			r, _ := phasestest.Run{Inputs: workflow.Inputs{Request: workflow.Request{Flags: tt.given}}}.Must(t, m)
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
		settings config.CloudConfiguration
		wantErr  string
	}{
		{"nothing special", config.CloudConfiguration{Provider: "aws", Mode: config.ModeStaticPod}, ""},
		{"a companion alone", config.CloudConfiguration{Provider: "kubevip", Mode: config.ModeDeployment}, "provider kubevip serves Services only: nothing of it takes the uninitialized taint away"},
		{"nobody's name", config.CloudConfiguration{Provider: "generic", Mode: config.ModeDaemonSet}, "provider generic needs --cloud-provider=VALUE"},
		{"a name", config.CloudConfiguration{Provider: "generic", Mode: config.ModeDaemonSet, ControllerManager: config.ControllerManager{ExtraArgs: []string{"--cloud-provider=acme"}}}, ""},
		{"routes of a provider without", config.CloudConfiguration{Provider: "digitalocean", Mode: config.ModeDaemonSet, Routes: new(true)}, "routes: provider digitalocean programs no routes"},
		{"a mode that would show a secret", config.CloudConfiguration{Provider: "hetzner", Mode: config.ModeStaticPod}, "mode: provider hetzner runs as DaemonSet or Deployment, not as StaticPod"},
		{"the user's own manager", config.CloudConfiguration{Provider: "generic", Mode: config.ModeManual}, ""},
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
