package settings

import (
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/config"
)

func TestCheckConfiguration(t *testing.T) {
	for _, tc := range []struct {
		name    string
		config  config.CloudConfiguration
		wantErr string
	}{
		{
			name: "the defaults",
		},
		{
			name:   "the profile has the choice of the mode",
			config: config.CloudConfiguration{Provider: "hetzner"},
		},
		{
			name:   "the machine has the choice of the provider",
			config: config.CloudConfiguration{Provider: "auto", Mode: config.ModeStaticPod},
		},
		{
			name:    "a mode that the provider has not",
			config:  config.CloudConfiguration{Provider: "hetzner", Mode: config.ModeStaticPod},
			wantErr: "mode: provider hetzner runs as",
		},
		{
			name:    "routes that the provider does not program",
			config:  config.CloudConfiguration{Provider: "digitalocean", Routes: new(true)},
			wantErr: "routes: provider digitalocean programs no routes",
		},
		{
			name:    "a profile that is not there",
			config:  config.CloudConfiguration{Profile: "/nowhere/profile.yaml"},
			wantErr: "read profile: open /nowhere/profile.yaml",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := tc.config.DeepCopy()
			err := CheckConfiguration(&tc.config)
			if tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("got %v, want %q", err, tc.wantErr)
			}
			if tc.config.Mode != before.Mode || tc.config.Provider != before.Provider {
				t.Errorf("it changed the configuration to %+v", tc.config)
			}
		})
	}
}
