// Package stranger shows that others can import what is meant for them, in modules of their own: the documents and the
// findings, and the conformance kit.
package stranger

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const prefix = "github.com/ccmadm/ccmadm/"

func TestDocumentsAndFindings(t *testing.T) {
	dir := module(t, "api")
	out, err := run(t, dir, "go", "build", "-ldflags=-s -w", "-o", "stranger", ".")
	if err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	out, err = run(t, dir, "./stranger")
	const want = `read CloudConfiguration cloud.yaml:3: unknown field "moed", did you mean "mode"?`
	if err == nil || strings.TrimSpace(out) != want {
		t.Errorf("got %v and %q, want %q", err, out, want)
	}
	out, err = run(t, dir, "go", "list", "-deps", ".")
	if err != nil {
		t.Fatalf("list: %v\n%s", err, out)
	}
	for dep := range strings.Lines(out) { // what a stranger gets along with two small packages
		ours, ok := strings.CutPrefix(strings.TrimSpace(dep), prefix)
		if ok && !strings.HasPrefix(ours, "api/") {
			t.Errorf("api imports %s", ours)
		}
	}
}

// The kit is built, not run: provider/conformance/example runs it.
func TestConformanceKit(t *testing.T) {
	if testing.Short() {
		t.Skip("it links all of upstream's controllers")
	}
	dir := module(t, "kit")
	if out, err := run(t, dir, "go", "test", "-c", "-ldflags=-s -w", "-o", "kit", "."); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	out, err := run(t, dir, "go", "list", "-test", "-deps", ".")
	if err != nil {
		t.Fatalf("list: %v\n%s", err, out)
	}
	for dep := range strings.Lines(out) {
		if strings.HasPrefix(dep, prefix+"phases") || strings.HasPrefix(dep, prefix+"doctor") {
			t.Errorf("the kit imports %s", dep)
		}
	}
}

// The kit's rules are printed by a program that gets nothing else of ours along.
func TestConformanceRules(t *testing.T) {
	if testing.Short() {
		t.Skip("links a program")
	}
	dir := module(t, "rules")
	out, err := run(t, dir, "go", "build", "-ldflags=-s -w", "-o", "rules", ".")
	if err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	out, err = run(t, dir, "./rules")
	if err != nil || strings.TrimSpace(out) == "" {
		t.Errorf("got %v and %q, want the name of a rule", err, out)
	}
	out, err = run(t, dir, "go", "list", "-deps", ".")
	if err != nil {
		t.Fatalf("list: %v\n%s", err, out)
	}
	for dep := range strings.Lines(out) {
		ours, ok := strings.CutPrefix(strings.TrimSpace(dep), prefix)
		if ok && ours != "provider/conformance" {
			t.Errorf("the kit imports %s", ours)
		}
	}
}

// module copies a program into a module of its own, which requires ours as it is here, and its dependencies as ours has
// them, with their checksums.
func module(t *testing.T, program string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", program))); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	ours, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	_, requirements, _ := strings.Cut(string(ours), "\n\n") // behind the line with our name
	text := "module example.com/stranger\n\n" + requirements +
		"\nrequire github.com/ccmadm/ccmadm v0.0.0\n\nreplace github.com/ccmadm/ccmadm => " + root + "\n"
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// run lets the go command download a module that our go.mod has and this user has not yet: `go test` on this package
// alone needs none of them. What go.mod and go.sum do not have, -mod=readonly refuses.
func run(t *testing.T, dir, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=readonly", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
