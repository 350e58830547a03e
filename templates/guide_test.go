package templates

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const guideFile, guideProvider = "../docs/tasks/add-a-provider-profile.md", "examplecloud"

// What the guide shows is a profile, and what the guide says of it is so.
func TestGuide_Profile(t *testing.T) {
	p, err := parse(guideProvider+".yaml", []byte(guideBlocks(t, "yaml")[0]), (*Profile).validateBuiltIn)
	if err != nil {
		t.Fatal(err)
	}
	err = p.CheckConfig(nil, "")
	for _, want := range guideSays {
		checkError(t, err, want)
	}
}

// guideSays is what is missing at first.
var guideSays = []string{"needs a configuration file", "project = my-project", "needs credential token"}

// The guide says that a provider is one file and a golden file. Here somebody does just what it says, in a copy.
func TestGuide(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program and a test in a copy of the tree, where the compiler's cache knows neither: 20 s")
	}
	dir := copyOfTree(t)
	file := filepath.Join(dir, "templates", "profiles", guideProvider+".yaml")
	if err := os.WriteFile(file, []byte(guideBlocks(t, "yaml")[0]), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, block := range guideBlocks(t, "console") {
		command := strings.TrimPrefix(strings.TrimSpace(block), "$ ")
		out, err := in(t, dir, "bash", "-c", command).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		if !strings.Contains(command, "render") {
			continue
		}
		for _, want := range slices.Concat(guideSays, []string{"kind: Pod"}) {
			if !bytes.Contains(out, []byte(want)) {
				t.Errorf("%s: want %q in\n%s", command, want, out)
			}
		}
	}
	status, err := in(t, dir, "git", "status", "--porcelain", "--untracked-files=all").Output()
	if err != nil {
		t.Fatal(err)
	}
	want := "?? manifests/testdata/catalogue/examplecloud.yaml\n?? templates/profiles/examplecloud.yaml\n"
	if diff := cmp.Diff(want, string(status)); diff != "" {
		t.Errorf("what the guide changed (-want +got):\n%s", diff)
	}
}

// copyOfTree has this tree's files, with a history of its own.
func copyOfTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	script := `cd .. && git ls-files -z --cached --others --exclude-standard |
	xargs -0 cp --parents --no-dereference -t "$0" 2>/dev/null
cd "$0" && git init -q && git add -A && git -c user.name=t -c user.email=t@example.com commit -qm copy`
	if out, err := exec.CommandContext(t.Context(), "bash", "-c", script, dir).CombinedOutput(); err != nil {
		t.Fatalf("copy the tree: %v\n%s", err, out)
	}
	return dir
}

func in(t *testing.T, dir, program string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	return cmd
}

// guideBlocks returns the guide's code blocks of a language.
func guideBlocks(t *testing.T, language string) []string {
	t.Helper()
	guide, err := os.ReadFile(guideFile)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for part := range strings.SplitSeq(string(guide), "\n```") {
		if block, ok := strings.CutPrefix(part, language+"\n"); ok {
			blocks = append(blocks, block+"\n")
		}
	}
	if len(blocks) == 0 {
		t.Fatalf("the guide has no block of %s", language)
	}
	return blocks
}
