package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// userData is what the examples have of cloud-init's format. cloud-init's own schema knows the rest.
type userData struct {
	Apt struct {
		Sources map[string]struct{ Source, Key string }
	}
	Packages   [][]string                                    // with versions
	WriteFiles []struct{ Path, Permissions, Content string } `json:"write_files"`
	Runcmd     []any
}

// debian is a command of tools.sh.
func debian(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	if *tools == "" {
		t.Fatal("-tools is missing: run make examples-check")
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(*tools, "usr/bin", program), args...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(*tools, "usr/lib/python3/dist-packages"), "LC_ALL=C.UTF-8")
	return cmd
}

func TestCloudInit(t *testing.T) {
	for _, name := range []string{"control-plane.yaml", "worker.yaml"} {
		t.Run(name, func(t *testing.T) {
			out, err := debian(t, "cloud-init", "schema", "--config-file", filepath.Join(root, "cloud-init", name)).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "Valid cloud-config") {
				t.Errorf("cloud-init schema: %v\n%s", err, out)
			}
			text := read(t, "cloud-init/"+name)
			var data userData
			if err := yaml.Unmarshal([]byte(text), &data); err != nil {
				t.Fatal(err)
			}
			checkInstallation(t, data)
			checkUserData(t, data)
		})
	}
}

// TestCloudInit_Refuses: the schema refuses a misspelled field.
func TestCloudInit_Refuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "wrong.yaml")
	text := strings.Replace(read(t, "cloud-init/worker.yaml"), "permissions:", "permission:", 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := debian(t, "cloud-init", "schema", "--config-file", file).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "permission") {
		t.Errorf("cloud-init schema accepts an unknown field: %v\n%s", err, out)
	}
}

// checkInstallation compares the repository of apt with that of the installation page.
func checkInstallation(t *testing.T, data userData) {
	t.Helper()
	page := readFile(t, "../../docs/tasks/install.md")
	fields := strings.Fields(data.Apt.Sources["ccmadm.list"].Source)
	if len(fields) != 4 || fields[1] != "[signed-by=$KEY_FILE]" || fields[3] != "./" ||
		!strings.Contains(page, "\nURL="+strings.Replace(fields[2], "v0.1.0/", "$VERSION\n", 1)) {
		t.Errorf("docs/tasks/install.md has another repository than %q", fields)
	}
	if len(data.Packages) != 1 || !slices.Equal(data.Packages[0], []string{"ccmadm", "0.1.0"}) {
		t.Errorf("packages are %q, want ccmadm with the version of its repository", data.Packages)
	}
}

// checkUserData lints the files that are written, and asks ccmadm whether it knows the commands with their flags.
func checkUserData(t *testing.T, data userData) {
	t.Helper()
	written := map[string]bool{}
	for _, file := range data.WriteFiles {
		written[file.Path] = true
		if file.Permissions != "0600" {
			t.Errorf("%s has permissions %s, want 0600", file.Path, file.Permissions)
		}
		lint(t, file.Content)
		if !strings.Contains(file.Content, "CloudConfiguration") {
			continue
		}
		path := filepath.Join(t.TempDir(), "kubeadm.yaml")
		if err := os.WriteFile(path, []byte(file.Content), 0o600); err != nil {
			t.Fatal(err)
		}
		run(t, *ccmadm, "config", "validate", "--config", path)
	}
	ours := 0
	for _, line := range data.Runcmd {
		words, _ := line.([]any)
		var args []string
		for i, word := range words {
			args = append(args, word.(string))
			if args[i] == "--config" && !written[words[i+1].(string)] {
				t.Errorf("%v: nothing writes %v", words, words[i+1])
			}
		}
		if len(args) > 0 && args[0] == "ccmadm" {
			ours++
			run(t, *ccmadm, append(args[1:], "--help")...) // a flag that there is not is an error before the help
		}
	}
	if ours == 0 {
		t.Errorf("no command is ccmadm's: %v", data.Runcmd)
	}
}
