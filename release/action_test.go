package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestAction_Install runs the step of action.yml that installs ccmadm, as a runner does, against a release. Nothing is
// installed whose checksum, or where a key is given whose signature, is wrong.
func TestAction_Install(t *testing.T) {
	archive := "ccmadm_v0.1.0_linux_" + runtime.GOARCH + ".tar.gz"
	_, otherPublic := strangersKeys(t)
	for _, tt := range []struct {
		name, version, key, changed, listed, want string
		installed                                 bool
	}{
		{name: "without a key", installed: true},
		{name: "with the key", key: made.publicKey(), installed: true},
		{name: "an archive that was changed", changed: archive, want: "verify " + archive + ": it has digest"},
		{name: "an archive that is not listed", listed: archive, want: "SHA256SUMS does not list it"},
		{name: "a list that was changed", key: made.publicKey(), changed: sumsName, want: "it is not signed by input public-key"},
		{name: "another key", key: otherPublic, want: "it is not signed by input public-key"},
		{name: "a version that is not released", version: "v0.2.0", want: runtime.GOARCH + ".tar.gz: is v0.2.0 released?"},
		{name: "a branch", version: "main", want: "want a release such as v0.1.0, not 'main'"},
		{name: "a path", version: "v0.1.0/../../x", want: "want a release such as v0.1.0"},
		{name: "a command", version: "v0.1.0;touch${IFS}pwned", want: "want a release such as v0.1.0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, temp := copied(t), t.TempDir()
			if tt.changed != "" {
				flip(t, filepath.Join(dir, tt.changed))
			}
			if tt.listed != "" {
				sums := strings.ReplaceAll(string(read(t, filepath.Join(dir, sumsName))), tt.listed, "another")
				if err := os.WriteFile(filepath.Join(dir, sumsName), []byte(sums), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			server := httptest.NewServer(http.FileServer(http.Dir(dir)))
			defer server.Close()
			env := map[string]string{"VERSION": "v0.1.0", "BASE_URL": server.URL, "RUNNER_TEMP": temp, "GITHUB_PATH": filepath.Join(temp, "path")}
			if tt.version != "" {
				env["VERSION"] = tt.version
			}
			if tt.key != "" {
				env["PUBLIC_KEY"] = string(read(t, tt.key))
			}
			out, err := installStep(t.Context(), t, temp, env)
			if (err == nil) != tt.installed || !strings.Contains(out, tt.want) {
				t.Errorf("error %v, want %q in\n%s", err, tt.want, out)
			}
			path, err := os.ReadFile(env["GITHUB_PATH"])
			if (err == nil) != tt.installed {
				t.Errorf("PATH is extended by %q, error %v", path, err)
			}
			if tt.installed && run(t, filepath.Join(strings.TrimSpace(string(path)), "ccmadm")) != "ccmadm of a test\n" {
				t.Error("another program was installed")
			}
			if left, err := filepath.Glob(filepath.Join(temp, "*")); err != nil || (len(left) > 0) != tt.installed {
				t.Errorf("left behind: %v, error %v", left, err)
			}
		})
	}
}

// installStep runs the script with the environment that the action declares, and no other variable of it.
func installStep(ctx context.Context, t *testing.T, dir string, env map[string]string) (string, error) {
	t.Helper()
	var action struct {
		Runs struct {
			Steps []struct {
				Name, Shell, Run string
				Env              map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(read(t, "../action.yml"), &action); err != nil || len(action.Runs.Steps) == 0 {
		t.Fatalf("read action.yml: %d steps, %v", len(action.Runs.Steps), err)
	}
	step := action.Runs.Steps[0]
	if step.Name != "Install ccmadm" || step.Shell != "bash" {
		t.Fatalf("the first step is %q in %s", step.Name, step.Shell)
	}
	cmd := exec.CommandContext(ctx, "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step.Run) // as runners call it
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "NO_PROXY=*", "TMPDIR=" + t.TempDir()}
	for name := range step.Env {
		cmd.Env = append(cmd.Env, name+"="+env[name])
	}
	for _, name := range []string{"RUNNER_TEMP", "GITHUB_PATH"} {
		cmd.Env = append(cmd.Env, name+"="+env[name])
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}
