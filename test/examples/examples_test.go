// Package examples tries the files of examples/, each by the program that reads it or by the types of that program. It is a module of its
// own, so that kind and Cluster API are none of the product's.
//
// Start at TestEveryFile, which lists what checks each file. Reads: examples/, and ccmadm from -ccmadm. Writes: temporary folders.
// AddressPools and BGPPeers are decoded by TestExamples of package docs, which may import ccmadm's types.
package examples

import (
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	kind "sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/yaml"
)

var (
	ccmadm = flag.String("ccmadm", "../../bin/ccmadm", "the program that examples call")
	tools  = flag.String("tools", "", "the folder that tools.sh prints, with ansible-core, cloud-init and dnsmasq")
)

// root is the folder of the examples.
const root = "../../examples"

// checks names for each file of the examples the test that reads it. A new file needs a line.
func checks() map[string]string {
	return map[string]string{
		"ansible/apply.yaml":                      "TestAnsible_Apply",
		"ansible/inventory.yaml":                  "TestAnsible",
		"ansible/kubeadm.yaml":                    "TestAnsible_Syntax",
		"ansible/roles/ccmadm/defaults/main.yaml": "TestAnsible",
		"ansible/roles/ccmadm/tasks/apply.yaml":   "TestAnsible_Apply",
		"ansible/roles/ccmadm/tasks/init.yaml":    "TestAnsible",
		"ansible/roles/ccmadm/tasks/install.yaml": "TestAnsible",
		"ansible/roles/ccmadm/tasks/join.yaml":    "TestAnsible",
		"ansible/roles/ccmadm/tasks/main.yaml":    "TestAnsible_Syntax",
		"ansible/site.yaml":                       "TestAnsible",
		"bare-metal/inventory.yaml":               "TestBareMetal",
		"bare-metal/kubeadm.yaml":                 "TestBareMetal",
		"bare-metal/load-balancers.yaml":          "TestExamples of package docs",
		"cloud-init/control-plane.yaml":           "TestCloudInit",
		"cloud-init/worker.yaml":                  "TestCloudInit",
		"cluster-api/cluster.yaml":                "TestClusterAPI",
		"floating-address/receiver.py":            "TestFloatingAddress",
		"ipam/adapter.py":                         "TestIPAM",
		"ipam/dhcp.py":                            "TestDHCP",
		"ipam/netbox.py":                          "TestIPAM",
		"kind/kind.yaml":                          "TestKind",
		"minikube/start.sh":                       "TestMinikube",
	}
}

func TestEveryFile(t *testing.T) {
	left := checks()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(root, path)
		if err != nil || relErr != nil || entry.IsDir() {
			return err
		}
		if filepath.Base(name) != "README.md" && left[filepath.ToSlash(name)] == "" {
			t.Errorf("examples/%s: no test reads it: write one, and add it to checks", name)
		}
		delete(left, filepath.ToSlash(name))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range left {
		t.Errorf("checks has examples/%s, which is not there", name)
	}
}

// TestReadmes: each folder says what it needs, what to run, and what was not run.
func TestReadmes(t *testing.T) {
	index := read(t, "README.md")
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		text := read(t, entry.Name()+"/README.md")
		for _, part := range []string{"Prerequisites: ", "\n```\n", "\nTested: ", "**Not run: "} {
			if !strings.Contains(text, part) {
				t.Errorf("examples/%s/README.md lacks %q", entry.Name(), part)
			}
		}
		if !strings.Contains(index, "]("+entry.Name()+"/README.md)") {
			t.Errorf("examples/README.md has no link to %s", entry.Name())
		}
	}
}

func TestBareMetal(t *testing.T) {
	folder := root + "/bare-metal"
	// node-ip is left to ccmadm init, so its absence is no more than a warning.
	run(t, *ccmadm, "lint", folder+"/kubeadm.yaml")
	run(t, *ccmadm, "config", "validate", "--config", folder+"/kubeadm.yaml")
	if out := run(t, *ccmadm, "machines", "check", "-f", folder+"/inventory.yaml"); !strings.Contains(out, "5 machines") {
		t.Errorf("machines check prints %q, want 5 machines", out)
	}
}

func TestKind(t *testing.T) {
	var cluster kind.Cluster
	if err := yaml.UnmarshalStrict([]byte(read(t, "kind/kind.yaml")), &cluster); err != nil {
		t.Fatal(err)
	}
	if cluster.APIVersion != "kind.x-k8s.io/v1alpha4" || len(cluster.Nodes) != 3 {
		t.Errorf("apiVersion %s and %d nodes, want kind.x-k8s.io/v1alpha4 and 3", cluster.APIVersion, len(cluster.Nodes))
	}
	if len(cluster.KubeadmConfigPatches) != 2 {
		t.Errorf("%d patches, want one for init and one for join", len(cluster.KubeadmConfigPatches))
	}
	lint(t, cluster.KubeadmConfigPatches...)
}

// lint gives kubeadm's documents to ccmadm lint, which has to find no error.
func lint(t *testing.T, documents ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeadm.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(documents, "\n---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, *ccmadm, "lint", file)
}

// TestLint_Refuses: what lint is asked for here, it does not say of every file.
func TestLint_Refuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeadm.yaml")
	wrong := "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\nnodeRegistration: {kubeletExtraArg: []}\n"
	if err := os.WriteFile(file, []byte(wrong), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), *ccmadm, "lint", file).CombinedOutput(); err == nil {
		t.Errorf("lint accepts an unknown field:\n%s", out)
	}
}

// TestMinikube runs the script with programs that record how they are called. ccmadm render is the real one.
func TestMinikube(t *testing.T) {
	binary, err := filepath.Abs(*ccmadm)
	if err != nil {
		t.Fatal(err)
	}
	bin, calls := t.TempDir(), filepath.Join(t.TempDir(), "calls")
	record := "#!/bin/sh\necho \"${0##*/} $*\" >> " + calls + "\n"
	script(t, bin+"/minikube", record)
	script(t, bin+"/kubectl", record+"cat > "+calls+".applied\n")
	script(t, bin+"/ccmadm", record+"if [ \"$1\" = render ]; then exec "+binary+" \"$@\"; fi\n")
	run(t, "bash", "-n", root+"/minikube/start.sh")
	cmd := exec.CommandContext(t.Context(), "bash", root+"/minikube/start.sh")
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "PROFILE=lab1", "IMAGE=ccm.tar")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("start.sh: %v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(readFile(t, calls)), "\n")
	slices.Sort(lines[2:4]) // both ends of a pipe
	for i, want := range []string{
		"minikube start --profile lab1 --extra-config=kubelet.cloud-provider=external", "minikube image load --profile lab1 ccm.tar",
		"ccmadm render --provider onprem", "kubectl --context lab1 apply", "ccmadm wait --context lab1",
	} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
			t.Errorf("call %d is not %q:\n%s", i, want, strings.Join(lines, "\n"))
		}
	}
	if applied := readFile(t, calls+".applied"); !strings.Contains(applied, "kind: DaemonSet") {
		t.Errorf("kubectl gets no DaemonSet:\n%s", applied)
	}
}

// script writes a program for PATH.
func script(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// run returns what a program prints. It fails the test if the program fails.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// read returns a file of the examples.
func read(t *testing.T, name string) string {
	t.Helper()
	return readFile(t, filepath.Join(root, name))
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
