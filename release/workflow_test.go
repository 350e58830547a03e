package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// TestWorkflow_Latest runs the step that publishes, with a gh that prints its arguments: only the highest final version is the latest
// release, which README.md installs.
func TestWorkflow_Latest(t *testing.T) {
	publish := script(t, "release", "gh release create")
	const tags = "v0.1.0 v0.2.0 v0.9.0 v0.9.1 v0.10.0 v0.11.0-rc.1 v0.11.0-rc.2 vendor"
	for _, tt := range []struct{ name, tag, released, want string }{
		{"a candidate", "v0.11.0-rc.2", "v0.10.0", "--prerelease --latest=false"},
		{"a candidate of an older version", "v0.9.0-rc.1", "v0.10.0", "--prerelease --latest=false"},
		{"the highest", "v0.10.0", "v0.9.0 v0.2.0 vendor", "--latest"},
		{"the first", "v0.1.0", "", "--latest"},
		{"a fix of an older version", "v0.9.1", "v0.10.0 v0.9.0", "--latest=false"},
		{"a fix where a newer tag was not released", "v0.9.1", "v0.9.0", "--latest"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			programs := map[string]string{
				"gh": "#!/bin/sh\ncase \"$2 $*\" in list*--exclude-drafts*--exclude-pre-releases*) printf '%s\\n' " + tt.released +
					" ;; *) echo \"$*\" ;; esac\n",
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
			out, err := runStep(t, dir, publish, "TAG="+tt.tag, "GITHUB_REPOSITORY=o/r", "GITHUB_SERVER_URL=https://h")
			want := "release create " + tt.tag + " --repo o/r --verify-tag --generate-notes " + tt.want + " dist/SHA256SUMS\n"
			if err != nil || out != want {
				t.Errorf("error %v, got\n%swant\n%s", err, out, want)
			}
		})
	}
}

// TestWorkflow_Jobs: tests of a tag run without keys and without the right to write, and before the job that has both.
func TestWorkflow_Jobs(t *testing.T) {
	jobs := workflow(t)
	if len(jobs) != 2 {
		t.Fatalf("%d jobs, want test and release", len(jobs))
	}
	if diff := cmp.Diff(map[string]string{"contents": "read"}, jobs["test"].Permissions); diff != "" {
		t.Errorf("permissions of the tests (-want +got):\n%s", diff)
	}
	if jobs["test"].Environment != "" || !strings.Contains(script(t, "test", "make release-check"), "make release-check") {
		t.Error("job test has an environment, or does not test")
	}
	if r := jobs["release"]; r.Needs != "test" || r.Environment != "release" {
		t.Errorf("job release needs %q and has environment %q", r.Needs, r.Environment)
	}
	if verifies := script(t, "release", "make release-verify"); verifies != "make release-verify KEY=dist/cosign.pub" {
		t.Errorf("%q does not verify signatures", verifies)
	}
}

// TestWorkflow_Keys: without one of the keys there is no release.
func TestWorkflow_Keys(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		env        []string
		fails      bool
	}{
		{name: "both", env: []string{"COSIGN_PRIVATE_KEY=c", "GPG_PRIVATE_KEY=g"}, want: "c g release VERSION=v0.1.0\n"},
		{name: "none", want: "no secret COSIGN_PRIVATE_KEY", fails: true},
		{name: "an empty one", env: []string{"COSIGN_PRIVATE_KEY=c", "GPG_PRIVATE_KEY="}, want: "no secret GPG_PRIVATE_KEY", fails: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			made := "#!/bin/sh\nenv | grep _PRIVATE_KEY= && exit 9\necho $(cat $COSIGN_PRIVATE_KEY_FILE $GPG_PRIVATE_KEY_FILE) \"$*\"\n"
			if err := os.WriteFile(filepath.Join(dir, "make"), []byte(made), 0o755); err != nil {
				t.Fatal(err)
			}
			out, err := runStep(t, dir, script(t, "release", "make release VERSION"), append(tt.env, "RUNNER_TEMP="+dir, "TAG=v0.1.0")...)
			if (err != nil) != tt.fails || !strings.Contains(out, tt.want) || tt.fails && strings.Contains(out, "release VERSION") {
				t.Errorf("error %v, want %q in\n%s", err, tt.want, out)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "*_PRIVATE_KEY")); len(left) > 0 {
				t.Errorf("the keys are left in %v", left)
			}
		})
	}
}

// TestWorkflow_CheckOut: only what the default branch has, or that of the minor version, is released, and only the commit for which the workflow was started.
func TestWorkflow_CheckOut(t *testing.T) {
	root := t.TempDir()
	repo := filepath.Join(root, "o", "r")
	in := func(args ...string) string {
		return strings.TrimSpace(run(t, "git", append([]string{"-C", repo}, args...)...))
	}
	commit := func(message string) string {
		in("-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "--quiet", "--allow-empty", "-m", message)
		return in("rev-parse", "HEAD")
	}
	run(t, "git", "init", "--quiet", "--initial-branch=main", repo)
	released := commit("first")
	in("-c", "user.name=t", "-c", "user.email=t@example.com", "tag", "-a", "-m", "signed elsewhere", "v0.1.0")
	commit("second")
	in("branch", "release-0.1", released)
	in("checkout", "--quiet", "release-0.1")
	fix := commit("a fix of v0.1")
	in("tag", "v0.1.1")
	in("tag", "v0.3.1")
	in("checkout", "--quiet", "-b", "aside")
	aside := commit("of a fork")
	in("tag", "v0.2.0")
	for _, tt := range []struct {
		tag, sha, wantErr string
	}{
		{"v0.1.0", released, ""},
		{"v0.1.1", fix, ""},
		{"v0.3.1", fix, "::error::v0.3.1 is not on branch main, nor on release-0.3"},
		{"v0.2.0", aside, "::error::v0.2.0 is not on branch main"},
		{"v0.1.0", aside, "::error::v0.1.0 is not on branch main"}, // the tag was moved meanwhile
	} {
		dir := t.TempDir()
		out, err := runStep(t, dir, script(t, "release", "git merge-base"), "TAG="+tt.tag, "BRANCH=main", "GITHUB_SHA="+tt.sha,
			"GITHUB_SERVER_URL=file://"+root, "GITHUB_REPOSITORY=o/r")
		if (err != nil) != (tt.wantErr != "") || !strings.Contains(out, tt.wantErr) {
			t.Errorf("%s at %s: error %v, want %q in\n%s", tt.tag, tt.sha, err, tt.wantErr, out)
		}
		if tt.wantErr == "" {
			if got := strings.TrimSpace(run(t, "git", "-C", dir, "rev-parse", "HEAD", tt.tag+"^{commit}")); got != tt.sha+"\n"+tt.sha {
				t.Errorf("%s: checked out %s, want %s", tt.tag, got, tt.sha)
			}
		}
	}
}

// runStep has bash run a step as a runner does, in a folder whose programs come first.
func runStep(t *testing.T, dir, script string, env ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-e", "-c", script)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + dir}, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// job is one of the workflow.
type job struct {
	Needs, Environment string
	Permissions        map[string]string
	Steps              []struct{ Name, Run string }
}

func workflow(t *testing.T) map[string]job {
	t.Helper()
	var file struct {
		Permissions map[string]string
		Jobs        map[string]job
	}
	if err := yaml.Unmarshal(read(t, "../.github/workflows/release.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	if file.Permissions == nil || len(file.Permissions) > 0 {
		t.Errorf("all jobs have permissions %v, want none", file.Permissions)
	}
	return file.Jobs
}

// script is what the one step of a job runs that has a text.
func script(t *testing.T, name, text string) string {
	t.Helper()
	var found []string
	for _, step := range workflow(t)[name].Steps {
		if strings.Contains(step.Run, text) {
			found = append(found, strings.TrimSpace(step.Run))
		}
	}
	if len(found) != 1 {
		t.Fatalf("job %s: %d steps have %q, want one", name, len(found), text)
	}
	return found[0]
}
