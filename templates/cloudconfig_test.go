package templates

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckConfig(t *testing.T) {
	const missing = "missing or empty: Global.auth-url"
	tests := []struct {
		name    string
		format  Format
		path    string
		content string
		wantErr string
	}{
		{
			name:    "ini with its key",
			format:  INI,
			content: "[global]\nAuth-URL = https://x\n",
		},
		{
			name:    "ini with a quoted value that has the signs of a comment, and a comment",
			format:  INI,
			content: "[Global] # all\nauth-url = \"https://x/#a;b\" ; keystone\n",
		},
		{
			name:    "ini with a subsection",
			format:  INI,
			content: "[Global \"eu\"]\nauth-url=x\n",
		},
		{
			name:    "ini with the key in another section",
			format:  INI,
			content: "[other]\nauth-url=x\n",
			wantErr: "read cloud.conf: " + missing,
		},
		{
			name:    "ini with the key in a comment",
			format:  INI,
			content: "[Global]\n#auth-url=x\n",
			wantErr: missing,
		},
		{
			name:    "ini with an empty value",
			format:  INI,
			content: "[Global]\nauth-url=\"\"\n",
			wantErr: missing,
		},
		{
			name:    "ini with nothing but a comment for a value",
			format:  INI,
			content: "[Global]\nauth-url = # fill this in\n",
			wantErr: missing,
		},
		{
			name:    "ini with a quote too few",
			format:  INI,
			content: "[Global]\nauth-url = \"secret\n",
			wantErr: "read cloud.conf: not ini: line 2: a quote without its end",
		},
		{
			name:    "ini with a line that goes on",
			format:  INI,
			content: "[Global]\nauth-url = x\\\n{y:z}\n",
		},
		{
			name:    "ini that is no ini",
			format:  INI,
			content: "[Global]\nauth-url: secret\n",
			wantErr: "read cloud.conf: not ini: line 2: want [Section] and key = value",
		},
		{
			name:    "yaml with its key",
			format:  YAML,
			content: "Global: {auth-url: x}",
		},
		{
			name:    "yaml without",
			format:  YAML,
			content: "Global: {}",
			wantErr: missing,
		},
		{
			name:    "not yaml, and no value in the message",
			format:  YAML,
			content: "secret: {",
			wantErr: "read cloud.conf: not yaml: line 1: want",
		},
		{
			name:    "a list where keys belong",
			format:  YAML,
			path:    "/root/my.conf",
			content: "- secret",
			wantErr: "read /root/my.conf: not yaml: want a mapping",
		},
		{
			name:    "a key too few, in a file of the user's",
			format:  YAML,
			path:    "/root/my.conf",
			content: "a: b",
			wantErr: "read /root/my.conf: " + missing,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Parse("mine.yaml", []byte(valid))
			if err != nil {
				t.Fatal(err)
			}
			p.Config.Format = tt.format
			err = p.CheckConfig(map[string][]byte{"cloud.conf": []byte(tt.content), "token": nil}, tt.path)
			checkError(t, err, tt.wantErr)
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("error shows the content: %v", err)
			}
		})
	}
}

func TestCheckConfig_Nothing(t *testing.T) {
	p, err := Parse("mine.yaml", []byte(valid))
	if err != nil {
		t.Fatal(err)
	}
	err = p.CheckConfig(nil, "")
	checkError(t, err, "provider example needs a configuration file: --cloud-config")
	checkError(t, err, "provider example needs credential token: it logs in with it")
}

func TestCatalogue_Config(t *testing.T) {
	tests := []struct {
		name, provider, file, content string
		without                       string // a credential
		wantErr                       string
	}{
		{
			name:     "gcp without a file searches one zone only, and its lifecycle controller deletes the others' nodes",
			provider: "gcp",
			wantErr:  "provider gcp needs a configuration file",
		},
		{
			name:     "gcp with a file that leaves the zones open",
			provider: "gcp",
			file:     "cloud.config",
			content:  "[global]\nnode-tags = my-node\n",
			wantErr:  "missing or empty: global.multizone",
		},
		{
			name:     "gcp in several zones",
			provider: "gcp",
			file:     "cloud.config",
			content:  "[global]\nmultizone = true\n",
		},
		{
			name:     "gcp in one zone, if the user says so",
			provider: "gcp",
			file:     "cloud.config",
			content:  "[global]\nmultizone = false\n",
		},
		{
			name:     "openstack with all of it in clouds.yaml",
			provider: "openstack",
			file:     "cloud.conf",
			content:  "[Global]\nuse-clouds = true\nclouds-file = /etc/kubernetes/cloud-config/clouds.yaml\ncloud = mine\n",
		},
		{
			name:     "openstack with clouds.yaml, which is not given",
			provider: "openstack",
			file:     "cloud.conf",
			content:  "[Global]\nuse-clouds = true\nclouds-file = \"/etc/kubernetes/cloud-config/clouds.yaml\" # mine\ncloud = mine\n",
			without:  "clouds.yaml",
			wantErr:  "provider openstack needs credential clouds.yaml: credentials in OpenStack's own format",
		},
		{
			name:     "openstack with clouds.yaml, which it does not read",
			provider: "openstack",
			file:     "cloud.conf",
			content:  "[Global]\nauth-url = x\nuse-clouds = false\nclouds-file = /etc/kubernetes/cloud-config/clouds.yaml\n",
			without:  "clouds.yaml",
		},
		{
			name:     "openstack with a CA that is not given, and no switch for that",
			provider: "openstack",
			file:     "cloud.conf",
			content:  "[Global]\nauth-url = x\nca-file = /etc/kubernetes/cloud-config/ca.crt\n",
			without:  "ca.crt",
			wantErr:  "provider openstack needs credential ca.crt: ",
		},
		{
			name:     "openstack with a comment about clouds.yaml",
			provider: "openstack",
			file:     "cloud.conf",
			content:  "[Global]\nauth-url = x\n# clouds-file = /etc/kubernetes/cloud-config/clouds.yaml\n",
			without:  "clouds.yaml",
		},
		{
			name:     "openstack with another file of a similar name",
			provider: "openstack",
			file:     "cloud.conf",
			content:  "[Global]\nauth-url = x\nca-file = /etc/kubernetes/cloud-config/ca.crt.pem\n",
			without:  "ca.crt",
		},
		{
			name:     "openstack without clouds.yaml, as it says",
			provider: "openstack",
			file:     "cloud.conf",
			content:  "[Global]\nuse-clouds = No\nregion = R\n",
			wantErr:  "missing or empty: Global.auth-url or Global.use-clouds;",
		},
		{
			name:     "openstack with neither a URL nor clouds.yaml",
			provider: "openstack",
			file:     "cloud.conf",
			content:  "[Global]\nregion = RegionOne\n",
			wantErr:  "read cloud.conf: missing or empty: Global.auth-url or Global.use-clouds;",
		},
		{
			name:     "oci looks up the VCN by the subnet of load balancers",
			provider: "oci",
			file:     "cloud-provider.yaml",
			content:  "loadBalancer: {subnet1: ocid1.subnet.x}\n",
		},
		{
			name:     "oci without load balancers needs no VCN",
			provider: "oci",
			file:     "cloud-provider.yaml",
			content:  "loadBalancer: {disabled: true}\n",
		},
		{
			name:     "oci with load balancers, and no VCN",
			provider: "oci",
			file:     "cloud-provider.yaml",
			content:  "loadBalancer: {disabled: false}\n",
			wantErr:  "missing or empty: vcn or loadBalancer.subnet1 or loadBalancer.disabled;",
		},
		{
			name:     "vsphere with a CA that is not given",
			provider: "vsphere",
			file:     "vsphere.conf",
			content:  "global: {server: vcenter.example.com, secretsDirectory: /run/x, caFile: /etc/kubernetes/cloud-config/ca.crt}\n",
			without:  "ca.crt",
			wantErr:  "provider vsphere needs credential ca.crt: ",
		},
		{
			name:     "vsphere with its one vCenter in the section global",
			provider: "vsphere",
			file:     "vsphere.conf",
			content:  "global: {server: vcenter.example.com, secretsDirectory: /etc/kubernetes/cloud-config}\n",
		},
		{
			name:     "kubevirt with the namespace of the kubeconfig",
			provider: "kubevirt",
			file:     "cloud-config",
			content:  "kubeconfig: /etc/kubernetes/cloud-config/kubeconfig\n",
		},
		{
			name:     "equinix with a key as its program writes it",
			provider: "equinix",
			file:     "cloud-sa.json",
			content:  `{"apiKey": "x", "projectId": "y"}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, files := builtIn(t, tt.provider), map[string][]byte{}
			for _, c := range p.Credentials {
				files[c.Key] = nil
			}
			delete(files, tt.without)
			if tt.file != "" {
				files[tt.file] = []byte(tt.content)
			}
			checkError(t, errors.Join(p.CheckConfig(files, ""), p.CheckNamed(files)), tt.wantErr)
		})
	}
}
