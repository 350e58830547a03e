package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestWorkflow_Latest runs the step that publishes, with a gh that prints its arguments: only the highest final version is the latest
// release, which README.md installs.
func TestWorkflow_Latest(t *testing.T) {
	script := publishStep(t)
	const tags = "v0.1.0 v0.2.0 v0.9.0 v0.10.0 v0.11.0-rc.1 v0.11.0-rc.2 vendor"
	for _, tt := range []struct{ tag, want string }{
		{"v0.11.0-rc.2", "--prerelease --latest=false"},
		{"v0.9.0-rc.1", "--prerelease --latest=false"},
		{"v0.10.0", "--latest"},
		{"v0.9.0", "--latest=false"},
	} {
		t.Run(tt.tag, func(t *testing.T) {
			dir := t.TempDir()
			programs := map[string]string{
				"gh":  "#!/bin/sh\necho \"$*\"\n",
				"git": "#!/bin/sh\nfor tag in " + tags + "; do printf '0123\\trefs/tags/%s\\n' $tag; done\n",
			}
			for name, text := range programs {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.MkdirAll(filepath.Join(dir, "dist", "repodata"), 0o755); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"SHA256SUMS", "repodata/repomd.xml"} {
				if err := os.WriteFile(filepath.Join(dir, "dist", name), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), "bash", "-e", "-c", script)
			cmd.Dir = dir
			cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "TAG=" + tt.tag, "GITHUB_REPOSITORY=o/r", "GITHUB_SERVER_URL=https://h"}
			out, err := cmd.CombinedOutput()
			want := "release create " + tt.tag + " --repo o/r --verify-tag --generate-notes " + tt.want + " dist/SHA256SUMS\n"
			if err != nil || string(out) != want {
				t.Errorf("error %v, got\n%swant\n%s", err, out, want)
			}
		})
	}
}

// publishStep is what the last step of the workflow runs.
func publishStep(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../.github/workflows/release.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var workflow struct {
		Jobs struct {
			Release struct {
				Steps []struct{ Name, Run string }
			}
		}
	}
	if err := yaml.Unmarshal(data, &workflow); err != nil {
		t.Fatal(err)
	}
	steps := workflow.Jobs.Release.Steps
	if len(steps) == 0 || !strings.Contains(steps[len(steps)-1].Run, "gh release create") {
		t.Fatal("the last step of the workflow does not publish")
	}
	return steps[len(steps)-1].Run
}
