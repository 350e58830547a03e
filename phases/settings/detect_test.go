package settings

import (
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
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
		{name: "CloudStack on KVM", dmi: map[string]string{"sys_vendor": "Apache Software Foundation", "product_name": "CloudStack KVM Hypervisor"}, want: "cloudstack"},
		{name: "a cloud on another's software", dmi: map[string]string{"sys_vendor": "OpenStack Foundation", "product_name": "OpenStack Nova", "chassis_asset_tag": "HUAWEICLOUD"}, want: "huawei"},
		{
			name: "Hyper-V at home", dmi: map[string]string{"sys_vendor": "Microsoft Corporation", "product_name": "Virtual Machine"},
			wantErr: []string{`sys_vendor "Microsoft Corporation", product_name "Virtual Machine", which fits no profile`},
		},
		{
			name: "bare metal", dmi: map[string]string{"sys_vendor": "Dell Inc.", "product_name": "PowerEdge R640"},
			wantErr: []string{`"Dell Inc."`},
		},
		{name: "no firmware tables", wantErr: []string{`sys_vendor ""`}},
		{
			name: "two at once", dmi: map[string]string{"sys_vendor": "Amazon EC2", "product_name": "Google Compute Engine"},
			wantErr: []string{"fits aws and gcp"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := machinetest.New(t)
			machinetest.Put(t, m, machine.DMIDir+"/uevent", "")
			for file, content := range tt.dmi {
				machinetest.Put(t, m, machine.DMIDir+"/"+file, content+"\n")
			}
			found, err := Detect(m)
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

func TestDetect_WithoutFirmware(t *testing.T) {
	m, _ := machinetest.New(t)
	_, err := Detect(m)
	if want := "detect the provider: this machine has no DMI data in " + machine.DMIDir + ", which fits no profile"; err == nil || err.Error() != want {
		t.Errorf("got error %v, want %q", err, want)
	}
}
