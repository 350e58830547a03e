package kubeadm

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite testdata/files/*.golden and *.changes")

const (
	testNodeIP = "10.20.30.40"
	testMinor  = 36
)

// kubeadmFileInputs are files as people, distributions and vendors' guides write them. The name's first word is the role.
func kubeadmFileInputs(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob("testdata/files/*.yaml")
	if err != nil || len(paths) < 40 {
		t.Fatalf("found %d inputs, %v", len(paths), err)
	}
	return paths
}

func roleOf(path string) Role {
	role, _, _ := strings.Cut(filepath.Base(path), "-")
	return Role(role)
}

func TestKubeadmFile_SetExternal(t *testing.T) {
	for _, path := range kubeadmFileInputs(t) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			input := readFile(t, path)
			f := parseFile(t, path, input)
			if diff := cmp.Diff(string(input), string(f.Bytes())); diff != "" {
				t.Errorf("an unedited file changed (-want +got):\n%s", diff)
			}
			f.TakeCloudConfiguration()
			changes := setExternal(t, f, roleOf(path))
			output := f.Bytes()
			golden(t, path, ".golden", output)
			golden(t, path, ".changes", []byte(changeList(changes)))

			again := parseFile(t, path, output)
			if changes := setExternal(t, again, roleOf(path)); len(changes) > 0 {
				t.Errorf("the second run reports %v", changes)
			}
			if diff := cmp.Diff(string(output), string(again.Bytes())); diff != "" {
				t.Errorf("the second run changed the file (-first +second):\n%s", diff)
			}
		})
	}
}

func TestKubeadmFile_SetExternal_OlderKubernetes(t *testing.T) {
	const input = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
nodeRegistration:
  kubeletExtraArgs:
  - name: cloud-provider
    value: external
  - name: cloud-config
    value: /etc/cloud.conf
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
apiServer:
  extraArgs:
  - name: cloud-provider
    value: external
`
	tests := []struct {
		name  string
		minor int
		want  []string
	}{
		{"1.32 has all flags", 32, nil},
		{"1.33 has lost those of the API server", 33, []string{"apiServer.extraArgs cloud-provider"}},
		{"1.34 has lost those of the kubelet too", 34, []string{"nodeRegistration.kubeletExtraArgs cloud-config", "apiServer.extraArgs cloud-provider"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := parseFile(t, "kubeadm.yaml", []byte(input))
			changes, err := f.SetExternal(RoleInit, KubeletFlags{}, tt.minor)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range changes {
				words := strings.Fields(c.String())
				got = append(got, words[1]+" "+words[2])
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("removed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestKubeadmFile_TakeCloudConfiguration(t *testing.T) {
	const kubeadm, ours = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n", "apiVersion: ccmadm.dev/v1alpha1\nkind: CloudConfiguration\n"
	tests := []struct {
		name     string
		file     string
		wantDoc  string
		wantLine int
		wantRest string
	}{
		{"none", kubeadm, "", 0, kubeadm},
		{"alone", ours, ours, 1, ""},
		{"first", ours + "---\n" + kubeadm, ours, 1, "---\n" + kubeadm},
		{"last, with a comment", kubeadm + "---\n# ours\n" + ours, "# ours\n" + ours, 4, kubeadm},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := parseFile(t, "kubeadm.yaml", []byte(tt.file))
			doc, line, ok := f.TakeCloudConfiguration()
			if string(doc) != tt.wantDoc || line != tt.wantLine || ok != (tt.wantDoc != "") {
				t.Errorf("got %q, line %d, %t; want %q, line %d", doc, line, ok, tt.wantDoc, tt.wantLine)
			}
			if diff := cmp.Diff(tt.wantRest, string(f.Bytes())); diff != "" {
				t.Errorf("the rest (-want +got):\n%s", diff)
			}
		})
	}
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func parseFile(t testing.TB, name string, data []byte) *File {
	t.Helper()
	f, err := Parse(name, data)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func setExternal(t testing.TB, f *File, role Role) []Change {
	t.Helper()
	changes, err := f.SetExternal(role, KubeletFlags{NodeIP: testNodeIP}, testMinor)
	if err != nil {
		t.Fatal(err)
	}
	return changes
}

func changeList(changes []Change) string {
	var b strings.Builder
	for _, c := range changes {
		fmt.Fprintf(&b, "%d: %s\n", c.Line, c)
	}
	return b.String()
}

func golden(t *testing.T, input, extension string, got []byte) {
	t.Helper()
	path := strings.TrimSuffix(input, ".yaml") + extension
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(readFile(t, path)), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
