package kubeadm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/minors"
	"github.com/ccmadm/ccmadm/manifests/lint"
)

// An object of Cluster API is judged for its own version and by its own feature gates, whatever else is in the file.
func TestFile_Lint_OwnVersion(t *testing.T) {
	const external = "[{name: cloud-provider, value: external}, {name: node-ip, value: '::'}]"
	controlPlane := func(version, configuration string) string {
		return `apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: cp}
spec:
  version: ` + version + `
  kubeadmConfigSpec:
    clusterConfiguration:
` + configuration + `
    initConfiguration: {nodeRegistration: {kubeletExtraArgs: ` + external + `}}
    joinConfiguration: {nodeRegistration: {kubeletExtraArgs: ` + external + `}}
`
	}
	const argument = "      controllerManager: {extraArgs: [{name: concurrent-service-syncs, value: '2'}]}"
	const gate = "      apiServer: {extraArgs: [{name: feature-gates, value: SidecarContainers=true}]}"
	const own = "      featureGates: {PublicKeysECDSA: true}"
	const kubeadmFile = "---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nnodeRegistration: {kubeletExtraArgs: " + external +
		"}\n---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nfeatureGates: {PublicKeysECDSA: true}\n"
	for _, tt := range []struct {
		name, input string
		minor       int
		want, left  string
	}{
		{"an argument that 1.37 removed, for 1.34", controlPlane("v1.34.2", argument), 37, "", ""},
		{"the same for 1.37", controlPlane("v1.37.2", argument), 36, "U4:8 fix", ""},
		{"a feature gate of a component that 1.36 has", controlPlane("v1.34.2", gate), 37, "", ""},
		{"and 1.37 has not", controlPlane("v1.37.2", gate), 36, "U5:8", "U5:8"},
		{"a feature gate of kubeadm's that 1.34 has", controlPlane("v1.34.2", own), 37, "", ""},
		{"and 1.37 has not", controlPlane("v1.37.2", own), 36, "U5:8", "U5:8"},
		{"another document's feature gates", controlPlane("v1.37.2", "      clusterName: a") + kubeadmFile, 37, "U5:18", "U5:18"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := ParseMixed("k.yaml", []byte(tt.input))
			if err != nil {
				t.Fatal(err)
			}
			check := func() ([]finding.Finding, error) { return f.Lint(tt.minor), nil }
			findings, _ := check()
			if got := lintSummary(findings); got != tt.want {
				t.Errorf("found %q, want %q", got, tt.want)
			}
			_, left, _ := lint.Fix(check)
			if got := lintSummary(left); got != tt.left {
				t.Errorf("left %q, want %q", got, tt.left)
			}
			if tt.left == tt.want && string(f.Bytes()) != tt.input {
				t.Errorf("the text was changed:\n%s", f.Bytes())
			}
		})
	}
}

// kube-controller-manager ends with the names of its former cloud controllers from 1.37 on, and starts none of them before.
func TestFile_Lint_Controllers(t *testing.T) {
	const file = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n" +
		"nodeRegistration: {kubeletExtraArgs: [{name: cloud-provider, value: external}, {name: node-ip, value: '::'}]}\n---\n" +
		"apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n" +
		"controllerManager: {extraArgs: [{name: controllers, value: '%s'}]}\n"
	for list, want := range map[string]bool{
		"*,-service": true, "*,-route": true, "*,-cloud-node-lifecycle": true,
		"*,-service-lb-controller": true, "-node-route-controller,*": true, "*,cloud-node-lifecycle-controller": true,
		"*": false, "*,-node-ipam-controller": false, "*,-node-lifecycle-controller,bootstrapsigner": false,
	} {
		for minor, severity := range map[int]finding.Severity{34: "note", 36: "note", 37: "error"} {
			f, err := Parse("k.yaml", fmt.Appendf(nil, file, list))
			if err != nil {
				t.Fatal(err)
			}
			findings := f.Lint(minor)
			switch {
			case !want && len(findings) > 0:
				t.Errorf("%s for 1.%d: found %s", list, minor, lintSummary(findings))
			case want && (lintSummary(findings) != "A9:7" || findings[0].Severity != severity):
				t.Errorf("%s for 1.%d: found %+v, want an A9 that is a %s", list, minor, findings, severity)
			}
		}
	}
	// The change that took the names took this flag, too, of which the tables know.
	since := finding.ID("A9").Kind().Since
	if gone := minors.Load().FlagRemoved("kube-controller-manager", "concurrent-service-syncs", minors.Newest()); gone != since {
		t.Errorf("the names are gone since %q, their flag since %q", since, gone)
	}
}

// Of merged arguments the strongest counts, as YAML has it, and the merge key is none.
func TestFile_KubeletArg_Merged(t *testing.T) {
	const file = `apiVersion: kubeadm.k8s.io/v1beta3
kind: InitConfiguration
x-weak: &weak {node-ip: 10.0.0.1, v: "1", cloud-provider: aws}
x-strong: &strong {node-ip: 10.0.0.2, v: "2", cloud-provider: external}
nodeRegistration:
  kubeletExtraArgs:
    <<: %s
    v: "3"
`
	for merge, want := range map[string]string{"[*strong, *weak]": "10.0.0.2", "[*weak, *strong]": "10.0.0.1", "*weak": "10.0.0.1"} {
		f, err := Parse("k.yaml", fmt.Appendf(nil, file, merge))
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{"node-ip": want, "v": "3"} {
			if got, _ := f.KubeletArg(RoleInit, name); got != want {
				t.Errorf("%s: %s is %q, want %q", merge, name, got, want)
			}
		}
		wantFound := "A4:3" // of the argument that counts, where it stands
		if strings.HasPrefix(merge, "[*strong") {
			wantFound = ""
		}
		if got := lintSummary(f.Lint(36)); got != wantFound {
			t.Errorf("%s: found %q, want %q", merge, got, wantFound)
		}
	}
}

func TestFile_Minor(t *testing.T) {
	for said, want := range map[string]int{
		"v1.34.2": 34, "1.35.0": 35, "v1.38.0-alpha.2": 38, "stable-1.36": 36, "latest-1.37": 37, "ci/latest-1.37": 37, "ci/v1.36.1-7+abc": 36,
		"": 0, "stable": 0, "latest": 0, "stable-1": 0, "v2.0.0": 0, "new": 0,
	} {
		text := fmt.Sprintf("apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: %q\n", said)
		f, err := Parse("k.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got, known := f.Minor(); got != want || known != (want != 0) {
			t.Errorf("%q: 1.%d, %v, want 1.%d", said, got, known, want)
		}
	}
}
