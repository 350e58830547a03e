package main

import (
	"strings"
	"testing"
)

func TestCheckFiles(t *testing.T) {
	const (
		config    = "apiVersion: ccmadm.dev/v1alpha1\nkind: OnPremConfiguration\n"
		machines  = "apiVersion: ccmadm.dev/v1alpha1\nkind: Inventory\nmetadata: {site: ber1}\nmachines: [{id: r1}]\n"
		pointsAt  = config + "inventory: {file: /etc/kubernetes/cloud-config/inventory.yaml}\n"
		otherSite = config + "site: ham1\ninventory: {file: /etc/kubernetes/cloud-config/inventory.yaml}\n"
	)
	for _, tt := range []struct {
		name, provider    string
		config, inventory string
		wantErr           string
	}{
		{name: "no files", provider: "onprem"},
		{name: "good files", provider: "onprem", config: pointsAt, inventory: machines},
		{name: "another provider's", provider: "aws", config: "[Global]", inventory: "x"},
		{
			name:     "an unknown setting",
			provider: "onprem",
			config:   config + "sit: ber1\n",
			wantErr:  `cloud.conf: read OnPremConfiguration: line 3: unknown field "sit"`,
		},
		{
			name:      "an inventory that is none",
			provider:  "onprem",
			config:    pointsAt,
			inventory: strings.Replace(machines, "id: r1", "id: R1!", 1),
			wantErr:   "inventory.yaml: read Inventory: line 4: machines[0].id",
		},
		{
			name:     "two sources",
			provider: "onprem",
			config:   config + "inventory: {file: /x, url: 'https://x/'}\n",
			wantErr:  "want exactly one of file, configMap and url",
		},
		{
			name:      "another site",
			provider:  "onprem",
			config:    otherSite,
			inventory: machines,
			wantErr:   `it is that of site "ber1", and cloud.conf wants "ham1"`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string][]byte{}
			if tt.config != "" {
				files["cloud.conf"] = []byte(tt.config)
			}
			if tt.inventory != "" {
				files["inventory.yaml"] = []byte(tt.inventory)
			}
			err := checkFiles(tt.provider, files)
			if tt.wantErr == "" && err != nil || tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)) {
				t.Errorf("got %v, want %q", err, tt.wantErr)
			}
		})
	}
}
