package kubeadm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/manifests/lint"
)

func TestKubeadmFile_Lint(t *testing.T) {
	const header = "apiVersion: kubeadm.k8s.io/v1beta4\n"
	const external = "nodeRegistration:\n  kubeletExtraArgs:\n  - {name: cloud-provider, value: external} # ours\n  - {name: node-ip, value: 10.0.0.1}\n"
	const initDoc, joinDoc = header + "kind: InitConfiguration\n" + external, header + "kind: JoinConfiguration\n" + external
	cluster := func(text string) string { return initDoc + "---\n" + header + "kind: ClusterConfiguration\n" + text }
	cases := []struct {
		name, input string
		minor       int
		want, left  string
	}{
		{"nothing wrong", initDoc, 36, "", ""},
		{"nothing wrong in a join", joinDoc, 36, "", ""},
		{"init without external mode", header + "kind: InitConfiguration\n", 36, "A1:1 fix A13:1", "A13:5"},
		{"join without external mode", strings.Replace(joinDoc, "cloud-provider", "v", 1), 36, "A1:5 fix", ""},
		{"no InitConfiguration", header + "kind: ClusterConfiguration\n", 36, "A1:1 fix", "A13:8"},
		{"a provider's name", strings.Replace(initDoc, "external", "aws", 1), 36, "A4:5", "A4:5"},
		{"no address", strings.Replace(initDoc, "node-ip", "v", 1), 36, "A13:5", "A13:5"},
		{"a kubelet flag that is gone", initDoc + "  - {name: cloud-config, value: /etc/x}\n", 36, "A5:7 fix", ""},
		{"a kubelet flag that is still there", initDoc + "  - {name: cloud-config, value: /etc/x}\n", 33, "", ""},
		{
			"API server",
			cluster("apiServer:\n  extraArgs:\n  - name: cloud-provider\n    value: external\n  - {name: v, value: '2'}\n"),
			36,
			"A6:12 fix",
			"",
		},
		{
			"controller manager",
			cluster("controllerManager:\n  extraArgs:\n  - {name: cloud-provider, value: external}\n"),
			36,
			"A18:12 fix",
			"",
		},
		{
			"controller manager with a provider",
			cluster("controllerManager:\n  extraArgs:\n  - {name: cloud-provider, value: gce}\n"),
			36,
			"A7:12",
			"A7:12",
		},
		{
			"an allocator of the cloud",
			cluster("controllerManager:\n  extraArgs:\n  - {name: cidr-allocator-type, value: CloudAllocator}\n"),
			36,
			"A7:12",
			"A7:12",
		},
		{
			"controllers of the cloud",
			cluster("controllerManager:\n  extraArgs:\n  - {name: controllers, value: '*,-service'}\n"),
			36,
			"A9:12",
			"A9:12",
		},
		{
			"no allocator",
			cluster(
				"networking: {podSubnet: 10.0.0.0/8}\ncontrollerManager:\n  extraArgs:\n  - {name: allocate-node-cidrs, value: 'false'}\n",
			),
			36,
			"F5:13",
			"F5:13",
		},
		{
			"a flag that 1.37 removed",
			cluster("controllerManager:\n  extraArgs:\n  - {name: concurrent-service-syncs, value: '2'}\n"),
			37,
			"U4:12 fix",
			"",
		},
		{
			"the same before it was",
			cluster("controllerManager:\n  extraArgs:\n  - {name: concurrent_service_syncs, value: '2'}\n"),
			36,
			"",
			"",
		},
		{
			"feature gates: gone, locked, as they are locked, known",
			cluster("apiServer:\n  extraArgs:\n  - name: feature-gates\n    value: SidecarContainers=true,HostnameOverride=false," +
				"PLEGOnDemandRelist=true,AllAlpha=false\n"),
			37,
			"U15:12 U5:12",
			"U15:12 U5:12",
		},
		{
			"etcd",
			cluster("etcd:\n  local:\n    extraArgs:\n    - {name: experimental-initial-corrupt-check, value: 'true'}\n" +
				"    - {name: snapshot-count, value: '10000'}\n"),
			37,
			"U4:13 fix",
			"",
		},
		{"a kubelet flag that 1.37 removed", initDoc + "  - {name: containerd-namespace, value: k8s.io}\n", 37, "U4:7 fix", ""},
		{"a feature gate of kubeadm's", cluster("featureGates: {PublicKeysECDSA: true}\n"), 37, "U5:10", "U5:10"},
		{
			"component configurations",
			initDoc + "---\napiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfeatureGates:\n" +
				"  SidecarContainers: true\n---\napiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n" +
				"featureGates: {HostnameOverride: false}\n",
			37,
			"U5:11 U15:15",
			"U5:11 U15:15",
		},
		{
			"what 1.38 and 1.40 end",
			initDoc + "---\napiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupDriver: systemd\n" +
				"---\napiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: ipvs\n",
			37,
			"U16:10 U17:14",
			"U16:10 U17:14",
		},
		{
			"kube-proxy as kubeadm has it",
			initDoc + "---\napiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: iptables\n", 37, "", "",
		},
		{
			"v1beta3, which 1.37 does not read", strings.NewReplacer("v1beta4", "v1beta3", "\n  - {name: ", "\n    ", ", value: ", ": ", "}", "").Replace(initDoc),
			37, "A20:1", "A20:1",
		},
		{"v1 before it was read", strings.ReplaceAll(initDoc, "v1beta4", "v1"), 36, "A20:1", "A20:1"},
		{"v1", strings.ReplaceAll(initDoc, "v1beta4", "v1"), 37, "", ""},
		{"a mapping in v1beta4", cluster("apiServer:\n  extraArgs: {v: '2'}\n"), 36, "A17:11", "A17:11"},
		{"a list in v1beta3", strings.ReplaceAll(initDoc, "v1beta4", "v1beta3"), 36, "A17:5", "A17:5"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f, err := Parse("k.yaml", []byte(c.input))
			if err != nil {
				t.Fatal(err)
			}
			check := func() ([]finding.Finding, error) { return f.Lint(c.minor), nil }
			findings, _ := check()
			if got := lintSummary(findings); got != c.want {
				t.Errorf("found %q, want %q", got, c.want)
			}
			_, left, err := lint.Fix(check)
			if err != nil {
				t.Fatal(err)
			}
			if got := lintSummary(left); got != c.left {
				t.Errorf("left %q, want %q in\n%s", got, c.left, f.Bytes())
			}
			if _, err := Parse("k.yaml", f.Bytes()); err != nil {
				t.Error(err)
			}
		})
	}
}

func lintSummary(findings []finding.Finding) string {
	var list []string
	for _, f := range findings {
		text := fmt.Sprintf("%s:%d", f.ID, f.Line)
		if f.Fixable() {
			text += " fix"
		}
		list = append(list, text)
	}
	return strings.Join(list, " ")
}

// Cluster API has kubeadm's configuration in objects of its own, extra arguments in the form of its own version.
func TestFile_Lint_ClusterAPI(t *testing.T) {
	const kubelet = `
      nodeRegistration:
        kubeletExtraArgs: {cloud-provider: external, node-ip: "::"}
`
	controlPlane := func(cluster, start, join string) string {
		return `apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: KubeadmControlPlane
metadata: {name: cp, namespace: prod}
spec:
  version: v1.36.3
  kubeadmConfigSpec:
    clusterConfiguration:` + cluster + `
    initConfiguration:` + start + `
    joinConfiguration:` + join
	}
	template := func(version, args string) string {
		return "apiVersion: bootstrap.cluster.x-k8s.io/" + version + `
kind: KubeadmConfigTemplate
metadata: {name: workers}
spec:
  template:
    spec:
      joinConfiguration:
        nodeRegistration:
          kubeletExtraArgs: ` + args + "\n"
	}
	tests := []struct {
		name  string
		input string
		want  string
		left  string
	}{
		{
			name:  "nothing wrong",
			input: controlPlane(" {}", kubelet, kubelet),
		},
		{
			name: "an API server's argument that is gone",
			input: controlPlane(
				"\n      apiServer:\n        extraArgs:\n          cloud-provider: external\n          v: '2'",
				kubelet,
				kubelet,
			),
			want: "A6:10 fix",
		},
		{
			name: "the argument's volume has no use any more",
			input: controlPlane(`
      controllerManager:
        extraArgs: {cloud-config: /etc/kubernetes/cloud.conf, v: '2'}
        extraVolumes:
        - {name: cloud, hostPath: /etc/kubernetes/cloud.conf, mountPath: /etc/kubernetes/cloud.conf}`, kubelet, kubelet),
			want: "A18:9 fix",
		},
		{
			name: "a version of its own, whose API server has the flag",
			input: strings.Replace(
				controlPlane("\n      apiServer:\n        extraArgs: {cloud-provider: external}", kubelet, kubelet),
				"v1.36.3",
				"v1.32.0",
				1,
			),
		},
		{
			name:  "machines that join are not in external mode",
			input: controlPlane(" {}", kubelet, " {}\n"),
			want:  "A1:12 fix A13:12",
			left:  "A13:12",
		},
		{
			name:  "workers",
			input: template("v1beta1", "{cloud-provider: aws}"),
			want:  "A4:9 A13:9",
			left:  "A4:9 A13:9",
		},
		{
			name:  "workers, in the version with lists",
			input: template("v1beta2", "[{name: node-ip, value: '::'}]"),
			want:  "A1:9 fix",
		},
		{
			name:  "the form of another version",
			input: template("v1beta2", "{cloud-provider: external, node-ip: '::'}"),
			want:  "A17:9",
			left:  "A17:9",
		},
		{
			name: "two templates in one file",
			input: template(
				"v1beta2",
				"[{name: node-ip, value: '::'}]",
			) + "---\n" + template(
				"v1beta2",
				"[{name: node-ip, value: '::'}]",
			),
			want: "A1:9 fix A1:19 fix",
		},
		{
			name:  "another group's object of the same kind",
			input: strings.Replace(template("v1beta2", "[]"), "bootstrap.cluster", "example", 1),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := ParseMixed("k.yaml", []byte(tt.input))
			if err != nil {
				t.Fatal(err)
			}
			check := func() ([]finding.Finding, error) { return f.Lint(36), nil }
			findings, _ := check()
			if got := lintSummary(findings); got != tt.want {
				t.Errorf("found %q, want %q in\n%s", got, tt.want, tt.input)
			}
			if strings.Contains(tt.input, "extraVolumes") &&
				!strings.Contains(findings[0].Message, "its volume cloud in controllerManager.extraVolumes has no use then") {
				t.Errorf("the volume is not named: %s", findings[0].Message)
			}
			_, left, _ := lint.Fix(check)
			if got := lintSummary(left); got != tt.left {
				t.Errorf("left %q, want %q in\n%s", got, tt.left, f.Bytes())
			}
		})
	}
}

// TestFile_Lint_Ahead has notes before the version that ends something, and what is severe from it on.
func TestFile_Lint_Ahead(t *testing.T) {
	const proxy = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: ipvs\n"
	const kubelet = "---\napiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupDriver: systemd\n"
	if configuration, other := Holds([]byte(proxy)); !configuration || other {
		t.Errorf("a KubeProxyConfiguration alone is taken for something else: %v, %v", configuration, other)
	}
	for minor, want := range map[int]string{37: "note note", 39: "note note", 40: "note warning"} {
		f, err := ParseMixed("k.yaml", []byte(proxy+kubelet))
		if err != nil {
			t.Fatal(err)
		}
		got := map[finding.ID]finding.Severity{}
		for _, found := range f.Lint(minor) {
			got[found.ID] = found.Severity
		}
		if text := string(got[finding.RuntimeEnds] + " " + got[finding.ProxyModeEnds]); text != want {
			t.Errorf("1.%d: got %s, want %s", minor, text, want)
		}
	}
}
