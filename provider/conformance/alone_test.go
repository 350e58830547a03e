package conformance_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// stranger is a program of somebody who knows nothing of ours but the kit.
const stranger = `package main

import (
	"fmt"

	"github.com/ccmadm/ccmadm/provider/conformance"
)

func main() { fmt.Println(conformance.Rules()[0].Name) }
`

// The kit is importable alone: a program in a module of its own builds with it, without network, and nothing else of
// ours comes along.
func TestStranger(t *testing.T) {
	if testing.Short() {
		t.Skip("links a program")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"main.go": stranger,
		"go.sum":  string(sums),
		"go.mod": "module example.com/stranger\n\ngo 1.26.0\n\nrequire github.com/ccmadm/ccmadm v0.0.0\n\n" +
			"replace github.com/ccmadm/ccmadm => " + root + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	if got := strings.TrimSpace(run("run", ".")); got == "" {
		t.Error("the program prints no rule")
	}
	for path := range strings.FieldsSeq(run("list", "-deps", ".")) {
		if strings.HasPrefix(path, "github.com/ccmadm/ccmadm/") && path != "github.com/ccmadm/ccmadm/provider/conformance" {
			t.Errorf("the kit imports %s", path)
		}
	}
}
