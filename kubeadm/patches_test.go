package kubeadm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	strategic = "spec: {template: {metadata: {labels: {team: a}}}}\n"
	jsonPatch = `[{"op": "add", "path": "/metadata/labels/team", "value": "a"}]` + "\n"
)

func TestLintPatch(t *testing.T) {
	const since137 = "does not know the patch target kubeproxydaemonset, which is known since 1.37"
	for _, tt := range []struct{ name, minor, text, want string }{
		{"kubeproxydaemonset.yaml", "1.37", strategic, ""},
		{"kubeproxydaemonset.yaml", "1.36", strategic, "kubeadm 1.36 " + since137},
		{"kubeproxydaemonset0+json.yaml", "1.35", jsonPatch, "kubeadm 1.35 " + since137},
		{"kubeproxydaemonset0+json.yaml", "1.37", jsonPatch, ""},
		{"kubeproxydaemonset.yaml", "1.99", strategic, ""}, // nothing is known of it
		{"kubeproxydaemonset+merge.json", "1.37", `{"spec": {}}`, ""},
		{"kubeproxydaemonset+json.yaml", "1.37", strategic, "want a list of operations"},
		{"kubeproxydaemonset.yaml", "1.37", jsonPatch, "want a mapping"},
		{"kubeproxydaemonset+yaml.yaml", "1.37", strategic, "none of json, merge and strategic"},
		{"kubeproxydaemonset.yaml", "1.37", "a: [", "read YAML"},
		{"kubeproxydaemonset.yaml", "1.37", "", ""},
		{"kube-apiserver1.yaml", "1.34", strategic, ""},
		{"kube-proxy.yaml", "1.37", strategic, "begins with no patch target (etcd, "},
		{"README.md", "1.36", "text", ""},
	} {
		t.Run(tt.name+" "+tt.minor, func(t *testing.T) {
			var said strings.Builder
			for _, f := range LintPatch("/p/"+tt.name, []byte(tt.text), PatchedMinors{Kubeadm: tt.minor, Components: tt.minor}) {
				if f.ID != "A21" || f.File != "/p/"+tt.name || f.Line == 0 {
					t.Errorf("got %+v", f)
				}
				said.WriteString(f.Message)
			}
			got := said.String()
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// A static pod has the name of a patch's target, too.
func TestIsPatch(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: etcd}\n"
	for _, tt := range []struct {
		name, text string
		want       bool
	}{
		{"kubeproxydaemonset.yaml", strategic, true},
		{"etcd.yaml", pod, false},
		{"etcd+merge.yaml", pod, true},
		{"kubeletconfiguration.json", `{"maxPods": 20}`, true},
		{"etcd.txt", strategic, false},
		{"web.yaml", strategic, false},
	} {
		if got := IsPatch("d/"+tt.name, []byte(tt.text)); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// kubeadm reads directories below the directory, and refuses a link.
func TestLintPatches(t *testing.T) {
	dir := t.TempDir()
	below := filepath.Join(dir, "d", "more")
	if err := os.MkdirAll(below, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		filepath.Join(dir, "d", "etcd.yaml"): strategic, filepath.Join(dir, "d", "NOTES"): "text",
		filepath.Join(below, "kubeproxydaemonset.yaml"): strategic,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("d", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for minor, want := range map[string]int{"1.36": 1, "1.37": 0} {
		if got, err := LintPatches(filepath.Join(dir, "d"), PatchedMinors{Kubeadm: minor, Components: minor}); err != nil || len(got) != want {
			t.Errorf("%s: got %v, %v, want %d", minor, got, err, want)
		}
	}
	for name, want := range map[string]string{"none": "no such file", "link": "not a directory", "d/etcd.yaml": "not a directory"} {
		if _, err := LintPatches(filepath.Join(dir, name), PatchedMinors{Kubeadm: "1.37", Components: "1.37"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
}
