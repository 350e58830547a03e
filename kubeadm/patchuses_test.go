package kubeadm

import (
	"strings"
	"testing"

	"github.com/ccmadm/ccmadm/api/finding"
)

// A patch gives a component what no other file has.
func TestLintPatch_Uses(t *testing.T) {
	const (
		gone      = "--experimental-initial-corrupt-check=true" // of etcd, in 1.37
		container = "spec:\n  containers:\n  - name: "
	)
	for _, tt := range []struct {
		name, file, minor, text string
		want                    []finding.ID
	}{
		{"merge", "etcd.yaml", "1.37", container + "etcd\n    command: [etcd, --data-dir=/x, " + gone + "]\n", []finding.ID{"U4"}},
		{"an older minor has it", "etcd.yaml", "1.35", container + "etcd\n    command: [etcd, " + gone + "]\n", nil},
		{"arguments", "etcd0+merge.yaml", "1.37", container + "etcd\n    args: [" + gone + "]\n", []finding.ID{"U4"}},
		{"another container", "etcd.yaml", "1.37", container + "backup\n    command: [etcd, " + gone + "]\n", nil},
		{"a probe", "etcd.yaml", "1.37", container + "etcd\n    livenessProbe: {exec: {command: [" + gone + "]}}\n", nil},
		{
			"a program that starts it", "etcd.yaml", "1.37",
			container + "etcd\n    command: [/runner, --log=x, /bin/etcd, " + gone + "]\n",
			[]finding.ID{"U4"},
		},
		{"a shell", "etcd.yaml", "1.37", container + "etcd\n    command: [sh, -c, x, --, --y]\n", nil},
		{
			"operations", "etcd+json.yaml", "1.37",
			"- {op: add, path: /spec/containers/0/command/-, value: " + gone + "}\n" +
				"- {op: replace, path: /spec/containers/0/command, value: [etcd, " + gone + "]}\n" +
				"- {op: add, path: /spec/containers/1/command/-, value: " + gone + "}\n" +
				"- {op: add, path: /spec/containers/-, value: {name: backup, command: [" + gone + "]}}\n" +
				"- {op: add, path: /metadata/annotations/x, value: " + gone + "}\n",
			[]finding.ID{"U4", "U4"},
		},
		{
			"operations that take it away", "etcd+json.yaml", "1.37",
			"- {op: test, path: /spec/containers/0/command/3, value: " + gone + "}\n" +
				"- {op: remove, path: /spec/containers/0/command/3}\n",
			nil,
		},
		{
			"feature gates", "kube-apiserver.yaml", "1.37",
			container + "kube-apiserver\n    command: [kube-apiserver, '--feature-gates=SidecarContainers=true,HostnameOverride=false']\n",
			[]finding.ID{"U5", "U15"},
		},
		{
			"feature gates of a component", "kube-apiserver.yaml", "1.37",
			container + "kube-apiserver\n    args: ['--feature-gates=kube:SidecarContainers=true,kube:HostnameOverride=true,other:NoSuch=true']\n",
			[]finding.ID{"U5"},
		},
		{
			"feature gates as the next argument", "kube-apiserver.yaml", "1.37",
			container + "kube-apiserver\n    command: [kube-apiserver, --feature-gates, SidecarContainers=true, --v=2]\n",
			[]finding.ID{"U5"},
		},
		{
			"kube-proxy", "kubeproxydaemonset.yaml", "1.37",
			"spec: {template: {spec: {containers: [{name: kube-proxy, command: [kube-proxy, --no-such, --config=/x]}]}}}\n",
			[]finding.ID{"U4"},
		},
		{"coredns", "corednsdeployment.yaml", "1.37", "spec: {template: {spec: {containers: [{args: [--x]}]}}}\n", nil},
		{
			"a kubelet's", "kubeletconfiguration.yaml", "1.37",
			"featureGates:\n  SidecarContainers: true\n  MemoryManager: null\n  AllAlpha: false\n  $patch: merge\n",
			[]finding.ID{"U5"},
		},
		{
			"a kubelet's, by operations", "kubeletconfiguration+json.json", "1.37",
			`[{"op": "add", "path": "/featureGates/SidecarContainers", "value": true},
			{"op": "add", "path": "/featureGates", "value": {"SidecarContainers": true}},
			{"op": "add", "path": "", "value": {"featureGates": {"SidecarContainers": true}}},
			{"op": "remove", "path": "/featureGates/SidecarContainers"},
			{"op": "add", "path": "/maxPods", "value": 20}]`,
			[]finding.ID{"U5", "U5", "U5"},
		},
		{"a minor that is not known", "etcd.yaml", "1.99", container + "etcd\n    command: [etcd, --no-such]\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got, want []string
			for _, f := range LintPatch("/p/"+tt.file, []byte(tt.text), PatchedMinors{Kubeadm: tt.minor, Components: tt.minor}) {
				if got = append(got, string(f.ID)); f.File != "/p/"+tt.file || f.Line == 0 || f.Column == 0 {
					t.Errorf("got %+v", f)
				}
			}
			for _, id := range tt.want {
				want = append(want, string(id))
			}
			if strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// kubeadm installs the minor before its own, too, and a vendor's program may have arguments of its own.
func TestLintPatch_Minors(t *testing.T) {
	const text = "spec: {containers: [{name: etcd, command: [etcd, --experimental-initial-corrupt-check=true, --vendors_own=1]}]}\n"
	runs := func(with string) func(string, string) bool {
		return func(component, name string) bool { return component+" "+name == with }
	}
	for _, tt := range []struct {
		of   PatchedMinors
		want string
	}{
		{PatchedMinors{Kubeadm: "1.37", Components: "1.37"}, "error error"},
		{PatchedMinors{Kubeadm: "1.37", Components: "1.36"}, "error"},
		{PatchedMinors{Kubeadm: "1.37", Components: "1.37", Runs: runs("etcd vendors-own")}, "error warning"},
		{PatchedMinors{Kubeadm: "1.37", Components: "1.37", Runs: runs("kube-apiserver vendors-own")}, "error error"},
	} {
		var got []string
		for _, f := range LintPatch("/p/etcd.yaml", []byte(text), tt.of) {
			got = append(got, string(f.Severity))
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("for %s: got %v, want %s", tt.of.Components, got, tt.want)
		}
	}
}

// A value that kube-controller-manager refuses stops it, whatever kubeadm's configuration has.
func TestLintPatch_RefusedValue(t *testing.T) {
	const names = "--controllers=*,-service-lb-controller"
	merged := func(args string) string {
		return "spec: {containers: [{name: kube-controller-manager, command: [kube-controller-manager, " + args + "]}]}\n"
	}
	added := func(arg string) string {
		return "[{op: add, path: /spec/containers/0/command/-, value: '" + arg + "'}]\n"
	}
	for _, tt := range []struct{ file, minor, text, want string }{
		{"kube-controller-manager+json.yaml", "1.37", added(names), "error A9"},
		{"kube-controller-manager+json.yaml", "1.36", added(names), "note A9"},
		{"kube-controller-manager+json.yaml", "", added(names), "note A9"},
		{"kube-controller-manager.yaml", "1.37", merged("'" + names + "'"), "error A9"},
		{"kube-controller-manager.yaml", "1.37", merged("--controllers, '*,-route'"), "error A9"},
		{"kube-controller-manager.yaml", "1.36", merged("'" + names + "'"), "note A9"},
		{"kube-controller-manager.yaml", "1.37", merged("'--controllers=*,-tokencleaner'"), ""},
		{"kube-controller-manager.yaml", "1.37", merged("--cloud-provider=aws"), "error A7"},
		{"kube-controller-manager.yaml", "1.37", merged("--cloud-provider=external, --cidr-allocator-type=RangeAllocator"), ""},
		{"kube-controller-manager+json.yaml", "1.37", added("--cidr-allocator-type"), ""},
		{"kube-scheduler+json.yaml", "1.36", added(names), "error U4"},
	} {
		var got []string
		for _, f := range LintPatch(tt.file, []byte(tt.text), PatchedMinors{Kubeadm: "1.37", Components: tt.minor}) {
			got = append(got, string(f.Severity)+" "+string(f.ID))
		}
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("%s %s, %s: got %v, want %q", tt.file, tt.text, tt.minor, got, tt.want)
		}
	}
}
