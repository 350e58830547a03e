package lint

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// run lints files in a directory, and returns what is on standard output and the error.
func run(t *testing.T, files map[string]string, args ...string) (dir, out string, err error) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var stdout bytes.Buffer
	cmd := NewCommand(workflow.Streams{In: strings.NewReader(""), Out: &stdout, Err: &bytes.Buffer{}}, "v0.0.0")
	cmd.SetArgs(append(args, dir))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		t.Fatal("lint does not end")
	}
	return dir, stdout.String(), err
}

// A configuration is for the version that it names, or the others name, unless the command line names one.
func TestLint_Version(t *testing.T) {
	const (
		header   = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: "
		external = "nodeRegistration:\n  kubeletExtraArgs: [{name: cloud-provider, value: external}, {name: node-ip, value: '::'}"
		argument = "controllerManager:\n  extraArgs: [{name: concurrent-service-syncs, value: '2'}]\n"            // gone in 1.37
		joins    = header + "JoinConfiguration\n" + external + ", {name: containerd-namespace, value: k8s.io}]\n" // gone in 1.37
		flags    = "[{name: cloud-provider, value: external}, {name: node-ip, value: '::'}]"
		topology = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: c}\nspec: {topology: {version: v1.34.2}}\n"
		template = "apiVersion: bootstrap.cluster.x-k8s.io/v1beta2\nkind: KubeadmConfigTemplate\nmetadata: {name: w}\nspec: {template: {spec: " +
			"{joinConfiguration: {nodeRegistration: {kubeletExtraArgs: [{name: cloud-provider, value: external}, {name: node-ip, value: '::'}, " +
			"{name: containerd-namespace, value: k8s.io}]}}}}}\n"
		patch = "[{op: add, path: /metadata/labels/team, value: a}]\n" // of a target since 1.37
	)
	starts := func(version string) string {
		return header + "InitConfiguration\n" + external + "]\n---\n" + header + "ClusterConfiguration\n" + argument +
			"kubernetesVersion: " + version + "\n"
	}
	controlPlane := func(version string) string {
		return "apiVersion: controlplane.cluster.x-k8s.io/v1beta2\nkind: KubeadmControlPlane\nmetadata: {name: cp}\nspec: {version: " + version +
			", kubeadmConfigSpec: {initConfiguration: {nodeRegistration: {kubeletExtraArgs: " + flags + "}}, " +
			"joinConfiguration: {nodeRegistration: {kubeletExtraArgs: " + flags + "}}}}\n"
	}
	workers := func(version string) string {
		return "apiVersion: cluster.x-k8s.io/v1beta2\nkind: MachineDeployment\nmetadata: {name: md}\nspec: {template: {spec: {version: '" +
			version + "'}}}\n"
	}
	for _, tt := range []struct {
		name  string
		files map[string]string
		args  []string
		want  string // IDs
	}{
		{"its own", map[string]string{"a.yaml": starts("v1.34.2")}, nil, ""},
		{"its own, with the mistake", map[string]string{"a.yaml": starts("v1.37.2")}, nil, "U4"},
		{"a label of one minor", map[string]string{"a.yaml": starts("stable-1.36")}, nil, ""},
		{"a label of none: the newest", map[string]string{"a.yaml": starts("stable")}, nil, "U4"},
		{"the flag goes before", map[string]string{"a.yaml": starts("v1.34.2")}, []string{"--kubernetes-version=1.37"}, "U4"},
		{"the flag goes before, the other way", map[string]string{"a.yaml": starts("v1.37.2")}, []string{"--kubernetes-version=v1.36.3"}, ""},
		{"machines that join, and nothing that names a version", map[string]string{"b.yaml": joins}, nil, "U4"},
		{"machines that join the cluster of another file", map[string]string{"a.yaml": starts("v1.36.3"), "b.yaml": joins}, nil, ""},
		{
			"machines that join, and two versions",
			map[string]string{"a.yaml": starts("v1.36.3"), "b.yaml": joins, "c.yaml": starts("v1.35.4")},
			nil, "U4",
		},
		{"templates of Cluster API alone", map[string]string{"w.yaml": template}, nil, "U4"},
		{"a template of the control plane's version", map[string]string{"cp.yaml": controlPlane("v1.34.2"), "w.yaml": template}, nil, ""},
		{"in one file", map[string]string{"c.yaml": controlPlane("v1.34.2") + "---\n" + template}, nil, ""},
		{"a template of 1.37", map[string]string{"cp.yaml": controlPlane("v1.37.2"), "w.yaml": template}, nil, "U4"},
		{
			"a template of workers of another version",
			map[string]string{"cp.yaml": controlPlane("v1.35.4"), "md.yaml": workers("v1.34.2"), "w.yaml": template},
			nil, "U4",
		},
		{"a template of workers", map[string]string{"md.yaml": workers("v1.34.2"), "w.yaml": template}, nil, ""},
		{"a template of a class", map[string]string{"c.yaml": topology, "w.yaml": template}, nil, ""},
		{"a version that a tool fills in", map[string]string{"md.yaml": workers("${KUBERNETES_VERSION}"), "w.yaml": template}, nil, "U4"},
		{
			"a patch of the control plane's version",
			map[string]string{"cp.yaml": controlPlane("v1.36.3"), "kubeproxydaemonset+json.yaml": patch},
			nil, "A21",
		},
		{"a patch alone", map[string]string{"kubeproxydaemonset+json.yaml": patch}, nil, ""},
		{
			"a patch for the cluster of another file",
			map[string]string{"a.yaml": starts("v1.36.3"), "kubeproxydaemonset+json.yaml": patch},
			nil, "A21",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, out, err := run(t, tt.files, append(tt.args, "-o", "json")...)
			var failed *finding.Error
			if found := strings.Contains(out, `"rule"`); found != (tt.want != "") || found != errors.As(err, &failed) ||
				!strings.Contains(out, tt.want) {
				t.Errorf("error %v, found %s\nwant %q", err, out, tt.want)
			}
		})
	}
	dir, _, err := run(t, map[string]string{"a.yaml": starts("v1.34.2")}, "--fix")
	if text, readErr := os.ReadFile(filepath.Join(dir, "a.yaml")); err != nil || readErr != nil || string(text) != starts("v1.34.2") {
		t.Errorf("errors %v, %v; --fix made of it\n%s", err, readErr, text)
	}
}

// Hetzner's manifest serves neither port. A run that fixes nothing looks what could be fixed, and ends, too.
func TestLint_Ends(t *testing.T) {
	const manager = `apiVersion: apps/v1
kind: DaemonSet
metadata: {name: ccm, namespace: kube-system}
spec:
  template:
    spec:
      hostNetwork: true
      containers:
      - name: ccm
        image: example.com/ccm:v1
        args: [--cloud-provider=acme, --secure-port=0, --webhook-secure-port=0, --kubeconfig=/x]
`
	for _, flag := range []string{"--fix=false", "--fix", "--diff"} {
		if _, out, _ := run(t, map[string]string{"a.yaml": manager}, flag); strings.Contains(out, "B11") {
			t.Errorf("%s: found\n%s", flag, out)
		}
	}
}
