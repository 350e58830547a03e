package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/ccmadm/ccmadm/manifests/lint"
	"github.com/ccmadm/ccmadm/phases"
)

//go:generate go test . -run ^TestReference$ -count=1 -update

var update = flag.Bool("update", false, "rewrite docs/reference from the commands")

// TestReference keeps docs/reference as the commands' own help says.
func TestReference(t *testing.T) {
	const dir = "../../docs/reference"
	want := map[string]string{}
	walk(newRoot(phases.Streams{}), func(cmd *cobra.Command) {
		cmd.DisableAutoGenTag = true
		var page bytes.Buffer
		if err := doc.GenMarkdown(cmd, &page); err != nil {
			t.Fatal(err)
		}
		want[strings.ReplaceAll(cmd.CommandPath(), " ", "_")+".md"] = page.String()
	})
	want["lint.md"] = lint.Reference(lintRules())
	if *update {
		rewrite(t, dir, want)
	}
	got := map[string]string{}
	files, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		got[filepath.Base(f)] = string(data)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/reference is not what the commands say; run `make generate` (-want +got):\n%s", diff)
	}
}

func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" {
			walk(c, visit)
		}
	}
}

func rewrite(t *testing.T, dir string, pages map[string]string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, page := range pages {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
