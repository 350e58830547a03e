package phases

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/phases/kubeadm"
	"github.com/ccmadm/ccmadm/templates"
)

// What firmware tables say in each cloud: cloud-init's ds-identify and systemd-detect-virt read the same.
func TestDetect(t *testing.T) {
	tests := []struct {
		name    string
		dmi     map[string]string
		want    string
		wantErr []string
	}{
		{name: "EC2", dmi: map[string]string{"sys_vendor": "Amazon EC2", "product_name": "m6i.large"}, want: "aws"},
		{name: "Azure", dmi: map[string]string{"sys_vendor": "Microsoft Corporation", "product_name": "Virtual Machine", "chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77"}, want: "azure"},
		{name: "Google", dmi: map[string]string{"sys_vendor": "Google", "product_name": "Google Compute Engine"}, want: "gcp"},
		{name: "Hetzner", dmi: map[string]string{"sys_vendor": "Hetzner", "product_name": "vServer"}, want: "hetzner"},
		{name: "DigitalOcean", dmi: map[string]string{"sys_vendor": "DigitalOcean", "product_name": "Droplet"}, want: "digitalocean"},
		{name: "Alibaba", dmi: map[string]string{"sys_vendor": "Alibaba Cloud", "product_name": "Alibaba Cloud ECS"}, want: "alibaba"},
		{name: "OpenStack", dmi: map[string]string{"sys_vendor": "RDO", "product_name": "OpenStack Compute"}, want: "openstack"},
		{name: "VMware", dmi: map[string]string{"sys_vendor": "VMware, Inc.", "product_name": "VMware7,1"}, want: "vsphere"},
		{name: "Oracle", dmi: map[string]string{"sys_vendor": "QEMU", "product_name": "Standard PC", "chassis_asset_tag": "OracleCloud.com"}, want: "oci"},
		{name: "a cloud on another's software", dmi: map[string]string{"sys_vendor": "OpenStack Foundation", "product_name": "OpenStack Nova", "chassis_asset_tag": "HUAWEICLOUD"}, want: "huawei"},
		{name: "Hyper-V at home", dmi: map[string]string{"sys_vendor": "Microsoft Corporation", "product_name": "Virtual Machine"}, wantErr: []string{`sys_vendor "Microsoft Corporation", product_name "Virtual Machine", which fits no profile`}},
		{name: "bare metal", dmi: map[string]string{"sys_vendor": "Dell Inc.", "product_name": "PowerEdge R640"}, wantErr: []string{`"Dell Inc."`}},
		{name: "no firmware tables", wantErr: []string{`sys_vendor ""`}},
		{name: "two at once", dmi: map[string]string{"sys_vendor": "Amazon EC2", "product_name": "Google Compute Engine"}, wantErr: []string{"fits aws and gcp"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for file, content := range tt.dmi {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(content+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			found, err := Detect(dir)
			if err == nil && (found.Provider != tt.want || len(found.Saw) == 0) {
				t.Errorf("got %+v, want %q and what told", found, tt.want)
			}
			if (err != nil) != (len(tt.wantErr) > 0) {
				t.Fatalf("got error %v, want %q", err, tt.wantErr)
			}
			for _, want := range tt.wantErr {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got error %v, want %q", err, want)
				}
			}
		})
	}
}

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
		{name: "a file and another provider", given: v1alpha1.CloudConfiguration{Profile: own, Provider: "aws"}, wantErr: `provider "aws": the profile ` + own + ` is that of "mine"`},
		{name: "no file", given: v1alpha1.CloudConfiguration{Profile: filepath.Join(dir, "x.yaml")}, wantErr: "read profile: open"},
		{name: "an empty file", given: v1alpha1.CloudConfiguration{Profile: empty}, wantErr: "it is empty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := &Data{Options: Options{Role: kubeadm.RoleInit, Flags: tt.given}}
			got, err := d.Settings(t.Context())
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
		{"routes of a provider without", v1alpha1.CloudConfiguration{Provider: "digitalocean", Mode: v1alpha1.ModeDaemonSet, Routes: ptr.To(true)}, "routes: provider digitalocean programs no routes"},
		{"a mode that would show a secret", v1alpha1.CloudConfiguration{Provider: "hetzner", Mode: v1alpha1.ModeStaticPod}, "mode: provider hetzner runs as DaemonSet or Deployment, not as StaticPod"},
		{"the user's own manager", v1alpha1.CloudConfiguration{Provider: "generic", Mode: v1alpha1.ModeManual}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := templates.Load(tt.settings.Provider)
			if err != nil {
				t.Fatal(err)
			}
			err = compatible(&tt.settings, p)
			if (err != nil) != (tt.wantErr != "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("got error %v, want %q", err, tt.wantErr)
			}
		})
	}
}
