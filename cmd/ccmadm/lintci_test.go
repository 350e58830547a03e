package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/minors"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// untolerated has finding B2, and configured none.
const (
	untolerated = `apiVersion: apps/v1
kind: DaemonSet
metadata: {name: ccm, namespace: kube-system}
spec:
  selector: {matchLabels: {app: ccm}}
  template:
    metadata: {labels: {app: ccm}}
    spec:
      containers:
      - {name: ccm, image: example.com/cloud-controller-manager:v1, args: [--cloud-provider=acme]}
`
	configured = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
nodeRegistration:
  kubeletExtraArgs:
  - {name: cloud-provider, value: external}
  - {name: node-ip, value: 198.18.0.10}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
clusterName: ber1
`
)

// hook is one of .pre-commit-hooks.yaml, with all keys that it may have here.
type hook struct {
	ID            string   `json:"id"`
	Name          string   `json:"name"`
	Description   string   `json:"description"`
	Entry         string   `json:"entry"`
	Language      string   `json:"language"`
	Files         string   `json:"files"`
	PassFilenames *bool    `json:"pass_filenames"`
	RequireSerial bool     `json:"require_serial"`
	Args          []string `json:"args"`
}

func hooks(t *testing.T) []hook {
	t.Helper()
	var list []hook
	if err := yaml.UnmarshalStrict(fileOf(t, "../../.pre-commit-hooks.yaml"), &list); err != nil || len(list) == 0 {
		t.Fatalf("read .pre-commit-hooks.yaml: %d hooks, %v", len(list), err)
	}
	return list
}

func fileOf(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Each hook calls a command that there is, on files that it is for, and its exit status is that of the findings.
func TestLintInCI_Hooks(t *testing.T) {
	root, dir := newRoot(workflow.Streams{}), t.TempDir()
	bad, good := filepath.Join(dir, "bad.yaml"), filepath.Join(dir, "good.yaml")
	for path, text := range map[string]string{bad: untolerated, good: configured} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range hooks(t) {
		if h.ID == "" || h.Name == "" || h.Description == "" || h.PassFilenames == nil || *h.PassFilenames {
			t.Errorf("hook %+v: it lacks a name, or gets the files that were changed only", h)
		}
		if !slices.Contains([]string{"golang", "system"}, h.Language) {
			t.Errorf("%s: language %q", h.ID, h.Language)
		}
		for path, want := range map[string]bool{"kubeadm.yaml": true, "a/b.yml": true, "c.json": true, "main.go": false, "yaml": false} {
			if got := regexp.MustCompile(h.Files).MatchString(path); got != want {
				t.Errorf("%s: files %q of %s: %v, want %v", h.ID, h.Files, path, got, want)
			}
		}
		words := append(strings.Fields(h.Entry), h.Args...)
		checkExample(t, root, root, strings.Join(words, " "))
		for _, tt := range []struct {
			args   []string
			status int
			want   string
		}{
			{[]string{bad}, int(finding.ExitFound), "error B2"},
			{[]string{bad, good}, int(finding.ExitFound), "error B2"},
			{[]string{good}, 0, ""},
			{nil, int(finding.ExitUsage), "want a file"},
		} {
			var out bytes.Buffer
			streams := workflow.Streams{In: strings.NewReader(""), Out: &out, Err: &out, Getenv: func(string) string { return "" }}
			got := run(t.Context(), streams, append(slices.Clone(words), tt.args...))
			if got != tt.status || !strings.Contains(out.String(), tt.want) {
				t.Errorf("%s %v: exit status %d, want %d, and %q in\n%s", h.ID, tt.args, got, tt.status, tt.want, &out)
			}
		}
	}
}

// The page names hooks that there are, with arguments that the command takes.
func TestLintInCI_Page(t *testing.T) {
	page := string(fileOf(t, "../../docs/tasks/lint-in-ci.md"))
	known := hooks(t)
	hooksUsed, inputsUsed := 0, 0
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(page, -1) {
		var config struct {
			Repos []struct{ Hooks []hook }
			Jobs  map[string]struct {
				Steps []struct {
					Uses string
					With map[string]string
				}
			}
		}
		if err := yaml.Unmarshal([]byte(block[1]), &config); err != nil {
			t.Fatal(err)
		}
		for _, repo := range config.Repos {
			for _, used := range repo.Hooks {
				hooksUsed++
				i := slices.IndexFunc(known, func(h hook) bool { return h.ID == used.ID })
				if i < 0 {
					t.Errorf("there is no hook %s", used.ID)
					continue
				}
				root := newRoot(workflow.Streams{})
				checkExample(t, root, root, known[i].Entry+" "+strings.Join(used.Args, " "))
			}
		}
		for _, job := range config.Jobs {
			for _, step := range job.Steps {
				if !strings.HasPrefix(step.Uses, "ccmadm/ccmadm@") {
					continue
				}
				for input := range step.With {
					inputsUsed++
					if _, is := readAction(t).Inputs[input]; !is {
						t.Errorf("the action has no input %s", input)
					}
				}
			}
		}
	}
	if hooksUsed == 0 || inputsUsed == 0 {
		t.Errorf("the page's blocks have %d hooks, and %d inputs of the action", hooksUsed, inputsUsed)
	}
	for name := range readAction(t).Inputs {
		if !strings.Contains(page, "| `"+name+"` |") {
			t.Errorf("the page lacks input %s", name)
		}
	}
	for name := range readAction(t).Outputs {
		if !strings.Contains(page, "| `"+name+"` |") {
			t.Errorf("the page lacks output %s", name)
		}
	}
}

// action is action.yml, with all keys that it may have here.
type action struct {
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Author      string            `json:"author"`
	Branding    map[string]string `json:"branding"`
	Inputs      map[string]struct {
		Description string  `json:"description"`
		Required    bool    `json:"required"`
		Default     *string `json:"default"`
	} `json:"inputs"`
	Outputs map[string]struct {
		Description string `json:"description"`
		Value       string `json:"value"`
	} `json:"outputs"`
	Runs struct {
		Using string       `json:"using"`
		Steps []actionStep `json:"steps"`
	} `json:"runs"`
}

type actionStep struct {
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	Shell     string            `json:"shell"`
	Directory string            `json:"working-directory"`
	Env       map[string]string `json:"env"`
	Run       string            `json:"run"`
}

func readAction(t *testing.T) action {
	t.Helper()
	var a action
	if err := yaml.UnmarshalStrict(fileOf(t, "../../action.yml"), &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// Inputs and outputs of the action are declared and used, and its command line is one that the program knows.
func TestLintInCI_Action(t *testing.T) {
	a, used := readAction(t), map[string]bool{}
	root := newRoot(workflow.Streams{})
	flagged := regexp.MustCompile(`"(--[a-z-]+)=`)
	commands := 0
	for _, step := range a.Runs.Steps {
		if step.Shell != "bash" || step.Run == "" {
			t.Errorf("step %s: shell %q", step.Name, step.Shell)
		}
		for _, value := range append(slices.Collect(maps.Values(step.Env)), step.Directory) {
			for _, m := range regexp.MustCompile(`\$\{\{ inputs\.([a-z-]+) \}\}`).FindAllStringSubmatch(value, -1) {
				used[m[1]] = true
			}
		}
		for line := range strings.Lines(step.Run) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "ccmadm ") {
				commands++
				own, _, _ := strings.Cut(line, " -- ") // files follow
				checkExample(t, root, root, own)
			}
			for _, m := range flagged.FindAllStringSubmatch(line, -1) {
				checkExample(t, root, root, "ccmadm lint "+m[1])
			}
		}
	}
	if commands != 2 || a.Runs.Using != "composite" {
		t.Errorf("%d calls of ccmadm in an action of kind %q, want 2, composite", commands, a.Runs.Using)
	}
	for name, input := range a.Inputs {
		if !used[name] || input.Description == "" || input.Required == (input.Default != nil) {
			t.Errorf("input %s: used %v, %+v", name, used[name], input)
		}
		delete(used, name)
	}
	for name := range used {
		t.Errorf("input %s is not declared", name)
	}
	lint := a.Runs.Steps[1]
	for name, output := range a.Outputs {
		written := lint.ID == "lint" && strings.Contains(lint.Run, `echo "`+name+"=")
		if output.Value != "${{ steps.lint.outputs."+name+" }}" || !written {
			t.Errorf("output %s is %q, and no step writes it", name, output.Value)
		}
	}
}

// An input that is not given means what the flag means.
func TestLintInCI_Version(t *testing.T) {
	command, _, err := newRoot(workflow.Streams{}).Find([]string{"lint"})
	if err != nil {
		t.Fatal(err)
	}
	usage := strings.Replace(command.Flags().Lookup("kubernetes-version").Usage, minors.Newest(), "the newest one of the release", 1)
	if got := readAction(t).Inputs["kubernetes-version"].Description; !strings.EqualFold(got, usage) {
		t.Errorf("the input is %q, the flag %q", got, usage)
	}
}

// The step that lints leaves SARIF for each end, and takes inputs as text.
func TestLintInCI_LintStep(t *testing.T) {
	for _, tt := range []struct {
		name   string
		env    map[string]string
		status int
		sarif  string // the rules in it, or empty for no file
		want   string
	}{
		{"findings", map[string]string{"FILES": "my bad.yaml"}, int(finding.ExitFound), "B2", "my bad.yaml:9:7: error B2"},
		{"lines, and white space", map[string]string{"FILES": "\n  good.yaml \n\tmy bad.yaml"}, int(finding.ExitFound), "B2", "error B2"},
		{"findings that are allowed", map[string]string{"FILES": "my bad.yaml", "FAIL": "false"}, 0, "B2", "error B2"},
		{"no findings", map[string]string{"FILES": "good.yaml", "STRICT": "true"}, 0, "-", ""},
		{"no such file, findings allowed", map[string]string{"FILES": "none.yaml", "FAIL": "false"}, int(finding.ExitUsage), "-", "none.yaml"},
		{"no files", map[string]string{"FILES": " \n"}, 1, "", "read input files"},
		{"no boolean", map[string]string{"FILES": "good.yaml", "STRICT": "yes"}, 1, "", "read input STRICT: want true or false, not 'yes'"},
		{"a flag for a file", map[string]string{"FILES": "--fix"}, int(finding.ExitUsage), "-", "--fix"},
		{"a command", map[string]string{"FILES": "$(touch pwned)"}, int(finding.ExitUsage), "-", "$(touch pwned)"},
		{"a version", map[string]string{"FILES": "good.yaml", "KUBERNETES_VERSION": "newest"}, int(finding.ExitUsage), "", "want 1.MINOR"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			out, outputs, status := lintStep(t, dir, tt.env)
			if status != tt.status || !strings.Contains(out, tt.want) {
				t.Errorf("exit status %d, want %d, and %q in\n%s", status, tt.status, tt.want, out)
			}
			if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
				t.Error("an input was executed")
			}
			written, err := os.ReadFile(filepath.Join(dir, "ccmadm.sarif"))
			if (err == nil) != (tt.sarif != "") || strings.Contains(outputs, "sarif=ccmadm.sarif") != (tt.sarif != "") {
				t.Fatalf("SARIF: %v, outputs %q, want %q", err, outputs, tt.sarif)
			}
			if tt.sarif == "" {
				return
			}
			report, err := sarif.FromBytes(written)
			if err != nil || len(report.Runs) != 1 {
				t.Fatalf("read SARIF: %v\n%s", err, written)
			}
			if found := strings.Contains(string(written), `"ruleId": "`+tt.sarif+`"`); found != (tt.sarif != "-") {
				t.Errorf("rule %s in SARIF: %v", tt.sarif, found)
			}
		})
	}
}

// lintStep runs the script as a runner does, with this program as ccmadm.
func lintStep(t *testing.T, dir string, inputs map[string]string) (out, outputs string, status int) {
	t.Helper()
	bin, written := t.TempDir(), filepath.Join(t.TempDir(), "outputs")
	own, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(own, filepath.Join(bin, "ccmadm")); err != nil { // TestMain knows its name
		t.Fatal(err)
	}
	for name, text := range map[string]string{"my bad.yaml": untolerated, "good.yaml": configured} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	step := readAction(t).Runs.Steps[1]
	env := map[string]string{"STRICT": "false", "FAIL": "true", "SARIF": "ccmadm.sarif", "DIRECTORY": "."} // the defaults
	maps.Copy(env, inputs)
	cmd := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step.Run)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GITHUB_OUTPUT=" + written}
	for name := range step.Env {
		cmd.Env = append(cmd.Env, name+"="+env[name])
	}
	for name := range env {
		if _, is := step.Env[name]; !is {
			t.Errorf("the step does not know %s", name)
		}
	}
	data, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(fmt.Errorf("run the step: %w", err))
	}
	result, err := os.ReadFile(written)
	if err != nil && cmd.ProcessState.Success() {
		t.Error(err)
	}
	return string(data), string(result), cmd.ProcessState.ExitCode()
}
