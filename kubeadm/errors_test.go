package kubeadm

import (
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/manifests/lint"
)

const (
	initHeader    = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n"
	clusterHeader = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n"
	oldHeader     = "apiVersion: kubeadm.k8s.io/v1beta3\nkind: InitConfiguration\n"
	oldCluster    = "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\n"
)

func TestParse_Errors(t *testing.T) {
	tests := []struct {
		name    string
		file    string
		wantErr string
	}{
		{"tab", initHeader + "nodeRegistration:\n\tname: x\n", "k.yaml:4: read YAML: found character that cannot start any token"},
		{"tab in the second document", clusterHeader + "---\n" + initHeader + "nodeRegistration:\n\tname: x\n", "k.yaml:7: read YAML: "},
		{"bad indentation", initHeader + "nodeRegistration:\n    name: x\n  taints: []\n", "k.yaml:5: read YAML: did not find expected"},
		{"unclosed quote", initHeader + "certificateKey: \"abc\n", "k.yaml:3: read YAML: found unexpected end of stream"},
		{"unclosed bracket", initHeader + "skipPhases: [a, b\n", "k.yaml:3: read YAML: "},
		{"unknown anchor", initHeader + "nodeRegistration: *none\n", "k.yaml:3: read YAML: unknown anchor 'none' referenced"},
		{"anchor in itself", initHeader + "nodeRegistration: &a\n  x: *a\n", "k.yaml:4: read YAML: anchor 'a' value contains itself"},
		{"duplicate key", "# comment\n---\n" + initHeader + "nodeRegistration: {}\nnodeRegistration: {}\n", `k.yaml:6: read YAML: mapping key "nodeRegistration" already defined at line 5`},
		{"duplicate argument", oldHeader + "nodeRegistration:\n  kubeletExtraArgs:\n    v: '1'\n    v: '2'\n", `k.yaml:6: read YAML: mapping key "v" already defined at line 5`},
		{"two of a kind", initHeader + "---\n" + clusterHeader + "---\n" + initHeader, `k.yaml:7: kind "InitConfiguration" is specified twice, first in line 1`},
		{"two of a foreign kind", "apiVersion: a.b/v1\nkind: X\n---\napiVersion: c.d/v2\nkind: X\n", `k.yaml:4: kind "X" is specified twice`},
		{"v1beta2", strings.Replace(clusterHeader, "v1beta4", "v1beta2", 1), "k.yaml:1: kubeadm.k8s.io/v1beta2 is older than what kubeadm reads now: run `kubeadm config migrate"},
		{"v1alpha3", "kind: InitConfiguration\napiVersion: kubeadm.k8s.io/v1alpha3\n", "k.yaml:2: kubeadm.k8s.io/v1alpha3 is older"},
		{"v1beta5", strings.Replace(initHeader, "v1beta4", "v1beta5", 1), "k.yaml:1: kubeadm.k8s.io/v1beta5 is not known: want kubeadm.k8s.io/v1beta3 or kubeadm.k8s.io/v1beta4"},
		{"kubeadm's kind in another group", "apiVersion: kubeadm.io/v1beta4\nkind: InitConfiguration\n", "k.yaml:1: kubeadm.io/v1beta4 is not known: want kubeadm.k8s.io/v1beta3"},
		{"no kind", "apiVersion: kubeadm.k8s.io/v1beta4\n", "k.yaml:1: kubeadm wants apiVersion (as group/version) and kind"},
		{"no group", initHeader + "---\napiVersion: v1\nkind: Secret\n", "k.yaml:4: kubeadm wants apiVersion (as group/version) and kind"},
		{"no version", "apiVersion: kubeadm.k8s.io/\nkind: InitConfiguration\n", "k.yaml:1: kubeadm wants apiVersion"},
		{"a list", "- " + strings.ReplaceAll(initHeader, "\n", "\n  ") + "\n", "k.yaml:1: want a mapping"},
		{"a shell script", "#!/bin/sh\nkubeadm init\n", "k.yaml:2: want a mapping"},
		{"text after the separator", initHeader + "--- " + clusterHeader, `k.yaml:3: "apiVersion: kubeadm.k8s.io/v1beta4" after the document separator`},
		{"four dashes", initHeader + "----\n" + clusterHeader, `k.yaml:3: "-" after the document separator`},
		{"directive", "%YAML 1.1\n---\n" + initHeader, "k.yaml:1: kubeadm does not read YAML directives"},
		{"document end", initHeader + "...\n" + clusterHeader, "k.yaml:4: read YAML: did not find expected <document start>"},
		{"line ends of an old Mac", strings.ReplaceAll(initHeader+"---\n"+clusterHeader, "\n", "\r"), "k.yaml:1: an odd line break in the line"},
		{"JSON with a bracket too many", "{\"apiVersion\": \"kubeadm.k8s.io/v1beta4\",\n\"kind\": \"InitConfiguration\"}}\n", "k.yaml:2: read YAML: did not find expected <document start>"},
		{"UTF-16", "\xff\xfea\x00p\x00i\x00", "k.yaml:1: not UTF-8 text"},
		{"Latin-1", initHeader + "# M\xfcnchen\n", "k.yaml:3: not UTF-8 text"},
		{"a binary", "\x7fELF\x02\x01\x01\x00\x00", "k.yaml:1: not UTF-8 text"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse("k.yaml", []byte(tt.file))
			checkError(t, err, tt.wantErr)
		})
	}
}

// mergedAndOwn has an argument twice: without its own, the merged one comes through.
const mergedAndOwn = oldCluster + "x: &a\n  cloud-provider: external\napiServer:\n  extraArgs: {<<: *a, cloud-provider: external}\n"

// A fix that would change nothing but the text changes nothing.
func TestFile_Lint_MergedAndOwn(t *testing.T) {
	const start = oldHeader + "nodeRegistration: {kubeletExtraArgs: {cloud-provider: external, node-ip: '::'}}\n---\n"
	f := parseFile(t, "k.yaml", []byte(start+mergedAndOwn))
	before := string(f.Bytes())
	fixed, left, err := lint.Fix(func() ([]finding.Finding, error) { return f.Lint(testMinor), nil })
	if err != nil || len(fixed) != 0 || len(left) != 1 || !strings.Contains(left[0].Do, "it is merged by a YAML merge key") {
		t.Errorf("fixed %v, left %v, %v", fixed, left, err)
	}
	if got := string(f.Bytes()); got != before {
		t.Errorf("the text was changed:\n%s", got)
	}
}

func TestKubeadmFile_SetExternal_Errors(t *testing.T) {
	tests := []struct {
		name    string
		role    Role
		file    string
		wantErr string
	}{
		{"kubelet for aws", RoleInit, oldHeader + "nodeRegistration:\n  kubeletExtraArgs:\n    cloud-provider: aws\n", `k.yaml:5: nodeRegistration.kubeletExtraArgs cloud-provider is "aws": remove it or set it to external`},
		{"kubelet for nothing", RoleInit, initHeader + "nodeRegistration:\n  kubeletExtraArgs:\n  - name: cloud-provider\n    value: \"\"\n", `k.yaml:5: nodeRegistration.kubeletExtraArgs cloud-provider is ""`},
		{"kubelet without a value", RoleInit, oldHeader + "nodeRegistration: {kubeletExtraArgs: {cloud_provider: }}\n", `k.yaml:3: nodeRegistration.kubeletExtraArgs cloud-provider is ""`},
		{"kubelet for two", RoleInit, initHeader + "nodeRegistration:\n  kubeletExtraArgs:\n  - {name: cloud-provider, value: external}\n  - {name: cloud-provider, value: openstack}\n", `k.yaml:6: nodeRegistration.kubeletExtraArgs cloud-provider is "openstack"`},
		{"kubelet through a merge key", RoleInit, oldHeader + "x: &x\n  cloud-provider: gce\nnodeRegistration:\n  kubeletExtraArgs:\n    <<: *x\n", `k.yaml:4: nodeRegistration.kubeletExtraArgs cloud-provider is "gce"`},
		{"API server for vsphere", RoleInit, oldCluster + "apiServer:\n  extraArgs:\n    cloud-provider: vsphere\n", `k.yaml:5: apiServer.extraArgs cloud-provider is "vsphere": remove it: kube-apiserver 1.33 and newer have no such flag`},
		{"controller manager for azure", RoleInit, oldCluster + "controllerManager:\n  extraArgs:\n    cloud-provider: azure\n", `k.yaml:5: controllerManager.extraArgs cloud-provider is "azure"`},
		{"all of them are told", RoleInit, oldHeader + "nodeRegistration: {kubeletExtraArgs: {cloud-provider: gce}}\n---\n" + oldCluster + "controllerManager: {extraArgs: {cloud-provider: gce}}\n", "\nk.yaml:7: controllerManager.extraArgs"},
		{"join without its document", RoleJoin, initHeader, "k.yaml: no JoinConfiguration found in the supplied config"},
		{"a mapping in v1beta4", RoleInit, initHeader + "nodeRegistration:\n  kubeletExtraArgs:\n    v: '2'\n", "k.yaml:5: nodeRegistration.kubeletExtraArgs: want a list in kubeadm.k8s.io/v1beta4"},
		{"a list in v1beta3", RoleInit, oldHeader + "nodeRegistration:\n  kubeletExtraArgs:\n  - name: v\n    value: '2'\n", "k.yaml:5: nodeRegistration.kubeletExtraArgs: want a mapping in kubeadm.k8s.io/v1beta3"},
		{"arguments as text", RoleInit, oldHeader + "nodeRegistration:\n  kubeletExtraArgs: --v=2\n", "k.yaml:4: nodeRegistration.kubeletExtraArgs: want a mapping"},
		{"arguments of another's anchor", RoleInit, oldHeader + "x: &x\n  v: '2'\nnodeRegistration:\n  kubeletExtraArgs: *x\n", `k.yaml:6: nodeRegistration.kubeletExtraArgs shares the YAML anchor "x": write it out`},
		{"arguments that others use", RoleInit, oldHeader + "nodeRegistration:\n  kubeletExtraArgs: &x\n    v: '2'\nx: *x\n", `nodeRegistration.kubeletExtraArgs shares the YAML anchor "x": write it out`},
		{"registration of a merge key", RoleInit, oldHeader + "x: &x\n  nodeRegistration: {name: a}\n<<: *x\n", "nodeRegistration is set by a YAML merge key: write it out"},
		{"shared arguments of the control plane", RoleInit, oldCluster + "apiServer:\n  extraArgs: &a\n    cloud-provider: external\ncontrollerManager:\n  extraArgs: *a\n", `k.yaml:5: remove controllerManager.extraArgs cloud-provider (it has no effect since Kubernetes 1.31): controllerManager.extraArgs shares the YAML anchor "a"`},
		{"merged arguments of the control plane", RoleInit, oldCluster + "x: &a\n  cloud-provider: external\napiServer:\n  extraArgs:\n    <<: *a\n", "k.yaml:4: remove apiServer.extraArgs cloud-provider (kube-apiserver 1.33 and newer refuse it): it is merged by a YAML merge key"},
		{"merged arguments of the control plane, and its own", RoleInit, mergedAndOwn, "k.yaml:6: remove apiServer.extraArgs cloud-provider (kube-apiserver 1.33 and newer refuse it): it is merged by a YAML merge key"},
		{"explicit keys", RoleInit, oldHeader + "? nodeRegistration\n: name: a\n", "k.yaml:4: cannot edit YAML that is written this way"},
		{"a flow value that is not there", RoleInit, oldHeader + "nodeRegistration: {kubeletExtraArgs: }\n", "cannot edit YAML that is written this way"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseFile(t, "k.yaml", []byte(tt.file)).SetExternal(tt.role, KubeletFlags{NodeIP: testNodeIP}, testMinor)
			checkError(t, err, tt.wantErr)
		})
	}
}

func checkError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v\nwant %s", err, want)
	}
}
